import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';

const GUARD = new URL('guard.mjs', import.meta.url).href;

/** A bench with a child, a stack that a command ends, and a folder. It prints the pid of its child. */
function writeBench(folder: string): string {
  const down = `require('node:fs').writeFileSync(${JSON.stringify(join(folder, 'down'))}, process.env.STATE ?? '')`;
  return `
    import { spawn } from 'node:child_process';
    import { mkdirSync } from 'node:fs';
    import { doAtEnd, killAtEnd } from ${JSON.stringify(GUARD)};
    const work = ${JSON.stringify(join(folder, 'work'))};
    mkdirSync(work);
    doAtEnd({ remove: work });
    doAtEnd({ run: [process.execPath, '-e', ${JSON.stringify(down)}], env: { STATE: 'the state' } });
    doAtEnd({ run: [process.execPath, '-e', 'process.exit(1)'], env: {} });
    const forget = doAtEnd({ remove: ${JSON.stringify(join(folder, 'kept'))} });
    forget();
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    killAtEnd(child.pid);
    console.log(child.pid);
    setInterval(() => undefined, 1_000);`;
}

interface StartedBench {
  readonly folder: string;
  readonly bench: ChildProcess;
  readonly childPid: number;
}

/** @param starter  a file of a program that starts the bench, whose path is its argument; absent: the test starts it */
async function startBench(starter?: string): Promise<StartedBench> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-guard-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'kept'), '');
  const program = join(folder, 'bench.mjs');
  writeFileSync(program, writeBench(folder));
  const args = [program];
  if (starter !== undefined) {
    args.unshift(join(folder, 'bootstrap.mjs'));
    writeFileSync(args[0]!, starter);
  }
  const bench = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void bench.kill('SIGKILL'));
  const [printed] = (await once(bench.stdout!, 'data')) as [Buffer];
  return { folder, bench, childPid: Number(printed.toString()) };
}

async function expectNothingLeft({ folder, childPid }: StartedBench): Promise<void> {
  await vi.waitFor(() => expect(existsSync(join(folder, 'work'))).toBe(false), { timeout: 20_000, interval: 50 });
  // The folder is registered first, so it is removed last.
  expect(readFileSync(join(folder, 'down'), 'utf8')).toBe('the state');
  expect(isRunning(childPid)).toBe(false);
  expect(existsSync(join(folder, 'kept'))).toBe(true);
}

/** A process that has ended stays in /proc until its parent reads its exit code. */
function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
}

test.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
  'a bench that %s ends leaves no process and no folder',
  async (signal) => {
    const started = await startBench();
    started.bench.kill(signal);
    await expectNothingLeft(started);
  },
);

test('a bench ends if its bootstrap is killed', async () => {
  const started = await startBench(
    `import { spawn } from 'node:child_process'; spawn(process.execPath, [process.argv[2]], { stdio: 'inherit' });`,
  );
  started.bench.kill('SIGKILL');
  await expectNothingLeft(started);
});
