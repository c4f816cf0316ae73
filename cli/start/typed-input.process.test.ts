/** `--input @FILE`: files that the user names, of which a cloned project may have written some. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../../test/rig/vms/blocking-pipe.ts';
import type { Machine } from '../../app/machine.ts';
import { readTypedInput } from './typed-input.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-input-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const read = async (argument: string): Promise<string> =>
  Buffer.from(await readTypedInput(argument, { cwd: dir } as Machine)).toString();

test('an input file that is a pipe without a writer is refused at once', async () => {
  const end = makeBlockingPipe(join(dir, 'input.json'));
  const startedMs = Date.now();
  await expect(read('@input.json')).rejects.toThrow(
    'cannot read the input file `input.json`: it is a pipe and no file; name a file, or use <(cat …)',
  );
  expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS / 2);
  end();
});

test('an input file is read from the working folder, and the null device is empty', async () => {
  writeFileSync(join(dir, 'input.json'), '{}');
  expect(await read('@input.json')).toBe('{}');
  expect(await read('@/dev/null')).toBe('');
  await expect(read('@none')).rejects.toThrow('cannot read the input file `none`: there is no such file');
});
