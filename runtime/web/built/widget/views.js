import{reportView as e}from"./source.js";var{campaign:t="",tenant:a=""}=document.querySelector("main")?.dataset??{};e({base:"",tenant:a},t);
