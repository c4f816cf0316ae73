/** Recovery of a killed `apply` meets pipes in the working tree. */
import { lstatSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../test/rig/vms/blocking-pipe.ts';
import { rememberFiles } from './files-before.ts';
import { recoverUnfinished } from './unfinished-apply.ts';

let dir: string;
let endPipe: () => void;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-unfinished-'));
  mkdirSync(join(dir, 'tree'));
});
afterEach(() => {
  endPipe();
  rmSync(dir, { recursive: true, force: true });
});

test('a pipe that an unfinished apply remembered is not read', async () => {
  const [folder, records] = [join(dir, 'tree'), join(dir, 'records')];
  endPipe = makeBlockingPipe(join(folder, 'file'));
  await rememberFiles(folder, records, [{ name: Buffer.from('file'), was: 'a'.repeat(40), becomes: 'b'.repeat(40) }]);
  rmSync(join(folder, 'file'));
  writeFileSync(join(folder, 'file'), 'by the user');
  const startedMs = Date.now();
  const [recovered] = await recoverUnfinished({ folder, records }, () => Promise.resolve());
  expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS / 2);
  // The file changed after git's end, at an unknown time, so the user's file stays.
  expect(recovered).toMatchObject({ isWhole: false, putBack: 0 });
  expect(lstatSync(join(folder, 'file')).isFile()).toBe(true);
  const [changed] = recovered!.changed;
  expect(changed?.name.toString()).toBe('file');
  expect(lstatSync(changed!.before!).isFIFO()).toBe(true);
});
