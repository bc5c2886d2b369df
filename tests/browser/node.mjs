// Pyodide under node: a line of JSON in (the source), a line of JSON out. Ends when its input does, and only if
// nothing keeps node alive: a port or a timer that somebody forgot shows as a process that does not end.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { loadPyodide } from "pyodide";
import { boot } from "./boot.mjs";

const bytes = async (path) => new Uint8Array(await readFile(path));
const [wheel, support] = process.argv.slice(2);
const evaluate = await boot(loadPyodide, {}, await bytes(wheel), await bytes(support));
console.log('{"value": "ready"}');
for await (const line of createInterface({ input: process.stdin })) {
  console.log(await evaluate(JSON.parse(line)));
}
