/** Outputs that cannot be written: standard output on a full disk, and a reader that has gone. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-full-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function type(line: string): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  delete env['npm_command'];
  const command = `set -o pipefail; '${process.execPath}' '${BIN}' ${line}`;
  return spawnSync('bash', ['-c', command], { env, encoding: 'utf8', timeout: 30_000 });
}

describe('voidbox', () => {
  test('exits with 3 if the disk of its standard output is full, and prints one error', () => {
    const remedy = 'Free space on that disk (`voidbox prune` deletes old runs), and try again.';
    for (const line of ['schema > /dev/full', 'version > /dev/full', 'runs > /dev/full']) {
      const { status, stderr } = type(line);
      expect([line, status, stderr]).toEqual([line, 3, `error: ENOSPC: no space left on device, write\n  ${remedy}\n`]);
    }
    const { status, stderr } = type('version --json > /dev/full');
    expect([status, JSON.parse(stderr)]).toEqual([
      3,
      { error: { code: 'host/disk-full', message: 'ENOSPC: no space left on device, write', remedy } },
    ]);
  });

  test('exits with 3 if the disk of its standard error is full', () => {
    expect(type('status no-such-run 2> /dev/full')).toMatchObject({ status: 3, stdout: '' });
  });

  test('exits with 0 and prints no error if the reader of its output has gone', () => {
    expect(type('schema | true')).toMatchObject({ status: 0, stderr: '' });
  });
});
