"use strict";
// Everything shown comes from the host as text and goes into the page as text: no HTML is built from it.

const $ = (id) => document.getElementById(id);
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const PAGE = 1000;
let functions = [];
let running = new AbortController();

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function headers(more = {}) {
  const token = $("token").value.trim();
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function get(path) {
  const response = await fetch(path, { headers: headers() });
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body;
}

async function load() {
  const found = [];
  try {
    let cursor = "";
    do {
      const page = await get(`v1/functions?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
      found.push(...page.functions);
      cursor = page.next_cursor;
    } while (cursor);
  } catch (error) {
    functions = [];
    show();
    $("count").textContent = error.message;
    return;
  }
  functions = found;
  show();
}

function show() {
  const wanted = $("find").value.toLowerCase();
  const matching = functions.filter((one) =>
    [one.name, one.description, ...one.tags].some((text) => text.toLowerCase().includes(wanted)));
  $("functions").replaceChildren(...matching.slice(0, PAGE).map((one) => {
    const button = element("button", { type: "button" }, one.name, element("small", {}, one.description));
    button.addEventListener("click", () => choose(one.name, button));
    return element("li", {}, button);
  }));
  $("count").textContent = `${matching.length} of ${functions.length} functions`;
}

async function choose(name, button) {
  document.querySelector("nav [aria-current]")?.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  running.abort();
  try {
    $("function").replaceChildren(...view(await get(`v1/functions/${encodeURIComponent(name)}`)));
  } catch (error) {
    $("function").replaceChildren(element("p", { className: "failed" }, error.message));
  }
}

function view(one) {
  const output = element("pre", { hidden: true });
  const names = Object.keys(one.parameters.properties ?? {});
  const fields = names.map((name) => field(name, one.parameters.properties[name], one.parameters.required ?? []));
  const call = element("button", { type: "submit" }, "Call");
  const form = element("form", {}, ...fields.map((each) => each.row), call);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(one, fields, call, output);
  });
  return [
    element("h2", {}, one.annotations.title ?? one.name),
    element("p", {}, one.description),
    element("p", {}, ...one.tags.map((tag) => element("span", { className: "tag" }, tag)), `engine ${one.engine.id}: ${one.state}`),
    form,
    output,
    details("Parameters", one.parameters),
    details(one.streaming ? "Each item" : "Result", one.result),
    details("Annotations and limits", { annotations: one.annotations, limits: one.limits, approval: one.approval }),
  ];
}

function details(title, value) {
  return element("details", {}, element("summary", {}, title), element("pre", {}, JSON.stringify(value, null, 2)));
}

// A field gives its argument as JSON text, so that a number keeps every digit; undefined leaves it out.
function field(name, schema, required) {
  const rules = typeof schema === "object" ? schema : {};
  const input = control(rules);
  const hint = [rules.description, rules.default === undefined ? "" : `default ${JSON.stringify(rules.default)}`];
  input.required = required.includes(name) && rules.type !== "string";
  const label = element("label", {}, element("b", {}, required.includes(name) ? `${name} *` : name), input);
  const row = element("div", {}, label, element("small", {}, hint.filter(Boolean).join("\n")));
  return { row, name, json: () => argument(input, rules, required.includes(name)) };
}

function control(rules) {
  const choices = Array.isArray(rules.enum) ? rules.enum : rules.type === "boolean" ? [true, false] : null;
  if (choices) {
    const options = choices.map((choice) => element("option", { value: JSON.stringify(choice) }, String(choice)));
    return element("select", {}, element("option", { value: "" }, ""), ...options);
  }
  if (rules.type === "string") return element("textarea", { rows: 1 });
  if (rules.type === "number" || rules.type === "integer") return element("input", { inputMode: "decimal", autocomplete: "off" });
  return element("textarea", { rows: 3, placeholder: "JSON" });
}

function argument(input, rules, required) {
  const text = input.value;
  if (input.tagName === "SELECT") return text || undefined;
  if (rules.type === "string") return text || required ? JSON.stringify(text) : undefined;
  if (!text.trim()) return undefined;
  const number = rules.type === "number" || rules.type === "integer";
  return number && !NUMBER.test(text.trim()) ? JSON.stringify(text) : text.trim();
}

// Choosing another function ends the call that runs.
async function run(one, fields, button, output) {
  const members = fields.map((each) => [each.name, each.json()]).filter(([, json]) => json !== undefined);
  const body = `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
  const accept = one.streaming ? "text/event-stream, application/problem+json" : "application/json";
  running = new AbortController();
  button.disabled = true;
  output.hidden = false;
  output.className = "";
  output.textContent = "…";
  try {
    const response = await fetch(`v1/functions/${encodeURIComponent(one.name)}`, {
      method: "POST",
      headers: headers({ "Content-Type": "application/json", Accept: accept }),
      body,
      signal: running.signal,
    });
    output.className = response.ok ? "" : "failed";
    await read(response, output);
  } catch (error) {
    output.className = "failed";
    output.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

async function read(response, output) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  output.textContent = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) output.append(part.value);
}

$("find").addEventListener("input", show);
$("token").addEventListener("change", load);
load();
