export { default } from "uplot";
export * from "uplot";
