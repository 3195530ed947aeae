import { useEffect, useRef } from "react";
import type { Reward, TombolaAttributes, TombolaGame as Game } from "./tombola";

type Props = TombolaAttributes & {
  onWon?: (rewards: Reward[]) => void;
  /** The player's token has expired: set a new one. */
  onExpired?: () => void;
};

export function TombolaGame({ onWon, onExpired, ...attributes }: Props) {
  const ref = useRef<Game>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const ended = new AbortController();
    const listen = { signal: ended.signal };
    element.addEventListener("tombola:won", (event) => onWon?.(event.detail.rewards), listen);
    element.addEventListener("tombola:error", (event) => event.detail.reason === "TOKEN_EXPIRED" && onExpired?.(), listen);
    return () => ended.abort();
  }, [onWon, onExpired]);
  return <tombola-game ref={ref} {...attributes} />;
}
