/** Specs that are not UTF-8 text, and a state folder that is a file: the place and the remedy are in the message. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SPEC = 'kind: workflow\nname: w\nworkflow:\n  steps:\n    - { name: a, run: "true" }\n';
const USING = 'kind: workflow\nname: main\nworkflow:\n  steps:\n    - { name: review, uses: ./part.yaml }\n';

let dir: string;
beforeAll(() => void (dir = mkdtempSync(join(tmpdir(), 'voidbox-unfit-text-'))));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (args: readonly string[]) => typeCommand(args, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

/** Starts the program itself, which checks its folders before a command starts. */
function typeInProcess(
  args: readonly string[],
  stateDir: string,
): Promise<{ readonly code: number; readonly stderr: string }> {
  const env = { PATH: process.env['PATH'], HOME: dir, NO_COLOR: '1', VOIDBOX_STATE_DIR: stateDir };
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [BIN, ...args],
      { cwd: dir, env, timeout: 60_000 },
      (_error, _stdout, stderr) => resolve({ code: child.exitCode ?? -1, stderr }),
    );
  });
}

const littleEndian = (text: string): Buffer => Buffer.from(text, 'utf16le');
const bigEndian = (text: string): Buffer => littleEndian(text).swap16();

describe.each([
  ['UTF-16LE with its mark', littleEndian(`\uFEFF${SPEC}`), 'UTF-16'],
  ['UTF-16BE with its mark', bigEndian(`\uFEFF${SPEC}`), 'UTF-16'],
  ['UTF-16LE without a mark', littleEndian(SPEC), 'UTF-16LE'],
  ['UTF-16BE without a mark', bigEndian(SPEC), 'UTF-16BE'],
])('a spec in %s', (_what, bytes, encoding) => {
  test.each(['validate', 'inspect', 'run'])(
    'is refused by `%s` with the file and the command that converts it',
    async (command) => {
      writeFileSync(join(dir, 'wide.yaml'), bytes);
      const { code, stderr } = await type([command, 'wide.yaml']);
      expect(code).toBe(2);
      expect(stderr).toContain('`wide.yaml` is UTF-16 text');
      expect(stderr).toContain(`Save it as UTF-8: iconv -f ${encoding} -t UTF-8 `);
    },
  );

  test('is refused as a part, with its file', async () => {
    writeFileSync(join(dir, 'main.yaml'), USING);
    writeFileSync(join(dir, 'part.yaml'), bytes);
    const { code, stderr } = await type(['validate', 'main.yaml']);
    expect(code).toBe(2);
    expect(stderr).toContain('part.yaml');
    expect(stderr).toContain('UTF-16');
    expect(stderr).toContain(`iconv -f ${encoding} -t UTF-8`);
  });
});

describe.each([
  ['a file', 'a-file', 'is a file, and a folder is needed'],
  ['below a file', 'a-file/state', 'cannot be made: '],
])('a state folder that is %s', (_what, path, words) => {
  test.each([['run', 'spec.yaml'], ['up'], ['runs'], ['status', 'r'], ['ps'], ['down']])(
    'is refused by `%s` with its path and the remedy',
    async (...args) => {
      writeFileSync(join(dir, 'spec.yaml'), SPEC);
      writeFileSync(join(dir, 'a-file'), '');
      const stateDir = join(dir, path);
      const { code, stderr } = await typeInProcess(args, stateDir);
      expect(code).toBe(3);
      expect(stderr).toContain(`The state folder ${stateDir} ${words}`);
      expect(stderr).toContain('export VOIDBOX_STATE_DIR=');
      expect(stderr).not.toMatch(/ENOTDIR|EEXIST|a bug/);
    },
  );
});
