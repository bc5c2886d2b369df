// The page's side: load Python, hand it two functions, and count frames. The frame counter knows nothing of Python,
// and that is the point of it.

import { loadPyodide } from "/pyodide/pyodide.mjs";

const find = (selector) => document.querySelector(selector);

// ---- frames

const KEPT = 120; // two seconds of them
const gaps = [];
let frames = 0;
let last = performance.now();

function frame() {
  const now = performance.now();
  gaps.push(now - last);
  last = now;
  if (gaps.length > KEPT) gaps.shift();
  frames += 1;
  find("#frames").textContent = frames.toLocaleString("en");
  find("#worst").textContent = Math.max(...gaps).toFixed(0);
  drawGaps();
  requestAnimationFrame(frame);
}

function drawGaps() {
  const canvas = find("#gaps");
  const pen = canvas.getContext("2d");
  const step = canvas.width / KEPT;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  gaps.forEach((gap, i) => {
    const height = Math.min(canvas.height, (gap / 50) * canvas.height); // full height: 50 ms
    pen.fillStyle = gap < 25 ? "#2a7" : gap < 50 ? "#c92" : "#c43";
    pen.fillRect(i * step, canvas.height - height, step - 1, height);
  });
}

// ---- what the program gets of the page

const pressed = [];
let waiting = null;

function press(what) {
  if (waiting === null) {
    pressed.push(what);
  } else {
    waiting(what);
    waiting = null;
  }
}

const page = {
  nextPress: () => (pressed.length ? Promise.resolve(pressed.shift()) : new Promise((go) => (waiting = go))),
  draw: (text) => {
    const view = JSON.parse(text);
    find("#decisions").textContent = view.decisions.toLocaleString("en");
    for (const lane of ["cancel", "timed", "ready"]) {
      find(`#${lane}-lane`).textContent = (view.lanes[lane] ?? 0).toLocaleString("en");
    }
    find("#tasks").replaceChildren(...view.tasks.map(row));
  },
};

function row(task) {
  const line = document.createElement("tr");
  line.dataset.state = task.state;
  line.dataset.name = task.name;
  const cells = [task.name, task.state.toLowerCase(), task.reason].map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  });
  cells[2].className = "reason";
  const bar = document.createElement("td");
  bar.innerHTML = '<div class="bar"><i></i></div>';
  bar.querySelector("i").style.width = `${(100 * task.spent) / task.budget}%`;
  const amount = document.createElement("td");
  amount.className = "amount";
  amount.textContent = `${task.spent.toLocaleString("en")} of ${task.budget.toLocaleString("en")} ops`;
  line.append(...cells, bar, amount);
  return line;
}

// ---- begin

requestAnimationFrame(frame);
try {
  const python = await loadPyodide({ indexURL: "/pyodide/" });
  python.unpackArchive(new Uint8Array(await (await fetch("/bursar.whl")).arrayBuffer()), "wheel");
  python.FS.writeFile("program.py", await (await fetch("program.py")).text());
  const program = python.pyimport("program");
  const running = program.begin(page);
  for (const button of document.querySelectorAll("button")) {
    button.onclick = () => press(button.dataset.press);
    button.disabled = false;
  }
  find("#status").textContent = "";
  gaps.length = 0; // loading Python does hold up the page; what is shown from here on is the scheduler's doing
  last = performance.now();
  await running;
} catch (error) {
  find("#status").textContent = String(error);
  throw error;
}
