/** The line for cron and the unit for systemd in docs/reference/temporal.md start the stack after a reboot. The tests execute both as cron and systemd do. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { napSpec } from './rig/runs/sleeping-run.ts';
import { isAlive, Rig } from './e2e/rig.ts';

const DOCS = readFileSync(join(findPackageRoot(), 'docs/reference/temporal.md'), 'utf8');
const WHERE_IN_DOCS = '/usr/local/bin';

/** A user whose programs lie in a folder that only the docs' `PATH` names. */
class Machine extends Rig {
  readonly home = join(this.specDir, 'home');
  readonly #bin = join(this.specDir, 'bin');

  constructor() {
    super();
    for (const folder of [this.home, this.#bin]) mkdirSync(folder);
    symlinkSync(process.execPath, join(this.#bin, 'node'));
    symlinkSync(join(findPackageRoot(), 'bin/voidbox.js'), join(this.#bin, 'voidbox'));
  }

  /** A text of the docs for this user: the folder of the programs, as the docs ask. */
  adapted(text: string): string {
    if (!text.includes(WHERE_IN_DOCS)) throw new Error(`the docs name no ${WHERE_IN_DOCS}: ${text}`);
    return text.replace(WHERE_IN_DOCS, this.#bin);
  }

  /** Runs a command as a daemon does: its environment, no terminal, nothing on standard input. */
  async daemon(argv: readonly string[], path: string): Promise<number | null> {
    const { cacheDir } = readEnvironment();
    const child = spawn(argv[0]!, argv.slice(1), {
      cwd: this.home,
      detached: true,
      stdio: 'ignore',
      env: {
        HOME: this.home,
        LOGNAME: 'ada',
        USER: 'ada',
        SHELL: '/bin/sh',
        PATH: path,
        // The stack of this test, with the pieces that this machine has.
        VOIDBOX_STATE_DIR: this.stateDir,
        VOIDBOX_CACHE_DIR: cacheDir,
      },
    });
    return await new Promise((resolve, reject) => child.once('error', reject).once('exit', resolve));
  }

  /** @returns pids of the supervisor, before and after the run */
  async runIts(): Promise<{ readonly code: number | null; readonly supervisors: readonly number[] }> {
    const before = await this.liveStack(90_000);
    const { code } = await this.cli('run', this.spec('nap.yaml', napSpec(0)), '--run-id', 'nap');
    const after = await this.liveStack();
    return { code, supervisors: [before.supervisorPid, after.supervisorPid] };
  }
}

test('the line for cron starts the stack at a reboot, with its output in the file that it names', async () => {
  await using machine = new Machine();
  const [, command = ''] = /^@reboot (.+)$/m.exec(DOCS) ?? [];
  // Cron makes a line feed of it.
  expect(command).not.toContain('%');
  const code = await machine.daemon(['/bin/sh', '-c', machine.adapted(command)], '/usr/bin:/bin');
  const log = readFileSync(join(machine.home, 'voidbox-up.log'), 'utf8');
  expect(code, log).toBe(0);
  expect(log).toContain('==> starting the embedded stack\n');
  expect(log).toMatch(/^Temporal {4}127\.0\.0\.1:\d+ /m);
  const { code: ended, supervisors } = await machine.runIts();
  expect([ended, supervisors[1]]).toEqual([0, supervisors[0]]);
});

test('the unit for systemd starts the stack, and stops it', async () => {
  await using machine = new Machine();
  const [, unit = ''] = /```ini\n(\[Unit\]\n[\s\S]+?)```/.exec(DOCS) ?? [];
  const valueOf = (key: string): string => new RegExp(`^${key}=(.+)$`, 'm').exec(unit)![1]!;
  const path = machine.adapted(valueOf('Environment').replace(/^PATH=/, ''));
  expect([valueOf('Type'), valueOf('RemainAfterExit'), valueOf('KillMode')]).toEqual(['oneshot', 'yes', 'process']);
  expect(await machine.daemon(valueOf('ExecStart').split(' '), path)).toBe(0);
  const { code, supervisors } = await machine.runIts();
  expect([code, supervisors[1]]).toEqual([0, supervisors[0]]);
  expect(await machine.daemon(valueOf('ExecStop').split(' '), path)).toBe(0);
  expect(supervisors.map(isAlive)).toEqual([false, false]);
});
