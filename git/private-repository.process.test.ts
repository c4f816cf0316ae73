/** The folders that private repositories leave, and the calls that remove them. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openScratch, withPrivateRepository } from './private-repository.ts';

test('repositories of killed processes are removed, and repositories of living processes stay, however old', async () => {
  const scratch = join(mkdtempSync(join(tmpdir(), 'voidbox-scratch-')), 'git');
  onTestFinished(() => rmSync(join(scratch, '..'), { recursive: true, force: true }));
  openScratch(scratch);
  const living = spawn('sleep', ['60']);
  const killed = spawn('sleep', ['60']);
  onTestFinished(() => void living.kill('SIGKILL'));
  const ended = new Promise((resolve) => killed.once('exit', resolve));
  killed.kill('SIGKILL');
  await ended;
  const host = { path: '/usr/local/bin:/usr/bin:/bin', home: null, scratch };
  await withPrivateRepository(host, async ({ folder }) => {
    const of = (pid: number, rest: string): string => `voidbox-git-${pid}-${rest}`;
    const old = [of(living.pid!, 'aaaaaa'), of(killed.pid!, 'bbbbbb'), of(process.pid, 'cccccc'), 'voidbox-git-dddddd'];
    const fresh = of(killed.pid!, 'eeeeee');
    for (const name of [...old, fresh]) mkdirSync(join(scratch, name));
    const hoursAgo = Date.now() / 1_000 - 2 * 3_600;
    for (const name of [...old, basename(folder)]) utimesSync(join(scratch, name), hoursAgo, hoursAgo);
    openScratch(scratch);
    expect(readdirSync(scratch).sort()).toEqual([of(living.pid!, 'aaaaaa'), basename(folder), fresh].sort());
  });
});
