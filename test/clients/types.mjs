// types.mjs CLIENT TYPES: do postrider.mjs and postrider.d.ts export the same names, and have their classes the same members?
import { readFileSync } from "node:fs";

const client = await import(process.argv[2]);
const text = readFileSync(process.argv[3], "utf8").replace(/\/\*[^]*?\*\//g, "").replace(/\/\/.*/g, "");
const wrong = [];

// What stands between the braces that begin at this place.
function block(from) {
  let depth = 0;
  for (let i = text.indexOf("{", from), begin = i; i < text.length; i++) {
    depth += text[i] === "{" ? 1 : text[i] === "}" ? -1 : 0;
    if (depth === 0) return text.slice(begin + 1, i);
  }
  throw new Error("braces without an end");
}

// Its members: methods, and what is none; those of nested types are left out.
function members(body) {
  let flat = "", depth = 0;
  for (const c of body) {
    if ("({<[".includes(c)) depth++;
    if (depth === 0 || (depth === 1 && c === "(")) flat += c;
    if (")}>]".includes(c)) depth--;
  }
  const found = { methods: new Set(), properties: new Set() };
  for (const part of flat.split(/[;\n]/)) {
    const [, name, method] = /^\s*(?:readonly\s+)?(\w+)\??\s*(\(|:)/.exec(part) ?? [];
    if (name && name !== "constructor") found[method === "(" ? "methods" : "properties"].add(name);
  }
  return found;
}

const same = (what, typed, real) => {
  for (const name of typed) if (!real.has(name)) wrong.push(`${what}${name} is in the types only`);
  for (const name of real) if (!typed.has(name)) wrong.push(`${what}${name} is not in the types`);
};

const values = [...text.matchAll(/^export (?:declare )?(class|function|const) (\w+)/gm)];
same("", new Set(values.map((v) => v[2])), new Set(Object.keys(client)));
for (const [, kind, name] of values) {
  if (kind !== "class" || !client[name]) continue;
  const typed = members(block(text.search(new RegExp(`^export (?:declare )?class ${name}\\b`, "m"))));
  const methods = Object.getOwnPropertyNames(client[name].prototype).filter((m) => m !== "constructor");
  same(`${name}.`, typed.methods, new Set(methods));
  const source = String(client[name]).replace(/\bname: "\w+", /g, ""); // every Error has that
  const set = [...source.matchAll(/\bthis\.(\w+) = /g)].map((m) => m[1]);
  const assigned = [...source.matchAll(/Object\.assign\(this, \{([^}]*)\}/g)].flatMap((m) => m[1].match(/\w+/g) ?? []);
  same(`${name}.`, typed.properties, new Set([...set, ...assigned]));
}
if (values.length < 10) wrong.push("hardly anything is exported");
console.log(wrong.join("\n"));
process.exit(wrong.length > 0 ? 1 : 0);
