/** A run without VMs through the whole embedded stack, by the real command line. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StackInfo } from '../../client/embedded/stack.ts';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const spec = (name: string, steps: readonly string[]): string =>
  `api_version: v1\nkind: workflow\nname: ${name}\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: last\n  steps:\n${steps.map((step) => `    - ${step}\n`).join('')}`;
const GOOD = spec('good', [
  '{ name: first, run: { program: echo, args: [hello, world] } }',
  '{ name: last, depends_on: [first], run: { program: tr, args: [a-z, A-Z], stdin_from: first } }',
]);
const BAD = spec('bad', [
  '{ name: first, run: { program: "false" } }',
  '{ name: last, depends_on: [first], run: { program: cat } }',
]);
const LONG = spec('long', ['{ name: last, run: { program: sleep, args: ["300"] } }']);
const INPUT = spec('input', ['{ name: last, env: { MAYBE: "" }, secrets: [TOKEN], run: { program: env } }']);

let dir: string;
const children = new Set<ChildProcess>();
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-cli-server-'));
  for (const [name, text] of Object.entries({ GOOD, BAD, LONG, INPUT }))
    writeFileSync(join(dir, `${name.toLowerCase()}.yaml`), text);
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await voidbox('down');
  rmSync(dir, { recursive: true, force: true });
});

interface Result {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly done: Promise<Result>;
} {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), ...variables };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: dir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 110_000,
  });
  children.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const done = new Promise<Result>((resolve) => {
    child.once('close', (code) => {
      children.delete(child);
      resolve({ code, stdout, stderr });
    });
  });
  return { child, stdout: () => stdout, stderr: () => stderr, done };
}

async function voidbox(...args: readonly string[]): Promise<Result> {
  return await start(args).done;
}

async function until(what: string, probe: () => boolean): Promise<void> {
  const end = Date.now() + 60_000;
  while (!probe()) {
    if (Date.now() > end) throw new Error(`waited 60 s for ${what}`);
    await sleep(50);
  }
}

/** Pid and address of the running stack; 0 and '' if no stack runs. */
function readStackFile(): Pick<StackInfo, 'supervisorPid' | 'address'> {
  try {
    return JSON.parse(readFileSync(join(dir, 'state', 'stack.json'), 'utf8')) as StackInfo;
  } catch {
    return { supervisorPid: 0, address: '' };
  }
}

describe('a run by the command line', () => {
  test('prints only its result on standard output, and its events on standard error', async () => {
    const run = await voidbox('run', 'good.yaml', '--run-id', 'good-1');
    expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 0, stdout: 'HELLO WORLD\n' });
    const lines = run.stderr.split('\n');
    expect(lines).toContain('[first] hello world');
    expect(
      lines.some((line) =>
        /^==> run good-1 · http:\/\/127\.0\.0\.1:\d+\/namespaces\/default\/workflows\/good-1$/.test(line),
      ),
    ).toBe(true);
    expect(lines).toContain('==> follow it elsewhere: voidbox logs -f good-1');
    expect(lines.indexOf('==> first started')).toBeLessThan(lines.indexOf('==> last started'));
    expect((await voidbox('result', 'good-1')).stdout).toBe('HELLO WORLD\n');
    expect(JSON.parse((await voidbox('status', 'good-1', '--json')).stdout)).toMatchObject({
      runId: 'good-1',
      state: 'succeeded',
      stages: [
        { id: 'first', state: 'succeeded', isolation: 'none', usage: { vmCpuMs: 0, vmDiskBytes: 0 } },
        { id: 'last' },
      ],
    });
  });

  test('a definition in TypeScript runs like the same spec in YAML', async () => {
    writeFileSync(
      join(dir, 'good.ts'),
      `import { defineWorkflow, param, step } from 'voidbox';
       const first = step('first', ['echo', 'hello', param('who')]);
       const last: typeof first = step('last', ['tr', 'a-z', 'A-Z'], { stdinFrom: first });
       export default defineWorkflow({ name: 'typed', params: { who: 'ada' }, sandbox: { mode: 'mock' }, steps: [first, last] });`,
    );
    const run = await voidbox('run', 'good.ts', '--run-id', 'typed-1', '--param', 'who=grace');
    expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 0, stdout: 'HELLO GRACE\n' });
  });

  test('a plan that is larger than what Temporal carries runs: it travels by its hash, and the workflow does not hold it', async () => {
    const long = `&long "${'x'.repeat(900_000)}"`;
    const steps = ['first', 'second', 'third'].map(
      (name, index) => `{ name: ${name}, run: { program: echo, args: [${index === 0 ? long : '*long'}] } }`,
    );
    writeFileSync(
      join(dir, 'large.yaml'),
      spec('large', [...steps, '{ name: last, depends_on: [third], run: { program: echo, args: [done] } }']),
    );
    const run = await voidbox('run', 'large.yaml', '--run-id', 'large-1');
    expect({ code: run.code, stdout: run.stdout }, run.stderr.slice(-2_000)).toEqual({ code: 0, stdout: 'done\n' });
  });

  test('a run id is never used twice', async () => {
    const again = await voidbox('run', 'good.yaml', '--run-id', 'good-1');
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain('run good-1 already exists');
  });

  test('a failed run ends with 1 and says what failed, where, and what to type', async () => {
    const run = await voidbox('run', 'bad.yaml', '--run-id', 'bad-1');
    expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 1, stdout: '' });
    expect(run.stderr).toMatch(/stage first failed: .*exit code 1 \(stage\/exit-nonzero\)/);
    expect(run.stderr).toContain('  voidbox logs bad-1 --stage first\n');
    expect((await voidbox('result', 'bad-1')).code).toBe(1);
  });

  test('--json is one object with the result in it', async () => {
    const run = await voidbox('run', 'good.yaml', '--json');
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout.trimEnd().split('\n')).toHaveLength(1);
    expect(JSON.parse(run.stdout)).toMatchObject({
      name: 'good',
      state: 'succeeded',
      outputText: 'HELLO WORLD\n',
      output: { sizeBytes: 12 },
    });
  });

  test("a variable of this shell reaches the stage and is in no file afterwards, the server's database included", async () => {
    const missing = await voidbox('run', 'input.yaml');
    expect({ code: missing.code, stdout: missing.stdout }).toEqual({ code: 3, stdout: '' });
    expect(missing.stderr).toContain('`TOKEN`');
    const run = await start(['run', 'input.yaml', '--run-id', 'input-1', '--json'], { TOKEN: 'hunter2-hunter2' }).done;
    expect(run.code, run.stderr).toBe(0);
    const { outputText } = JSON.parse(run.stdout) as { readonly outputText: string };
    expect(outputText).toMatch(/^TOKEN=/m);
    expect(outputText).toMatch(/^MAYBE=$/m);
    expect(run.stdout + run.stderr).not.toContain('hunter2');
    const logs = await voidbox('logs', 'input-1');
    expect(logs.stdout + logs.stderr).toContain('warning: the variable MAYBE is not set on the host');
    const state = join(dir, 'state');
    expect(listRegularFilesBelow(state).filter((path) => readFileSync(join(state, path)).includes('hunter2'))).toEqual(
      [],
    );
  });

  test('-d does not wait for the end; cancel ends the run', async () => {
    const run = await voidbox('run', '-d', 'long.yaml', '--json');
    expect(run.code, run.stderr).toBe(0);
    const { runId } = JSON.parse(run.stdout) as { runId: string };
    expect(runId).toMatch(/^long-\d{8}-\d{6}-[0-9a-f]{4}$/);
    expect(await voidbox('cancel', runId)).toMatchObject({ code: 0, stdout: `${runId} cancelled\n` });
    expect(JSON.parse((await voidbox('runs', '--state', 'cancelled', '--json')).stdout)).toMatchObject({
      runs: [{ runId }],
    });
    expect(await voidbox('cancel', runId)).toMatchObject({
      code: 0,
      stdout: `${runId} had already ended: cancelled\n`,
    });
  });

  test('Ctrl-C cancels just this run and ends with 130', async () => {
    const other = await voidbox('run', '-d', 'long.yaml', '--run-id', 'other-1');
    expect(other.code, other.stderr).toBe(0);
    const run = start(['run', 'long.yaml', '--run-id', 'long-1']);
    await until('the stage to start', () => run.stderr().includes('==> last started'));
    run.child.kill('SIGINT');
    const { code, stderr } = await run.done;
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('long-1 cancelled');
    expect(JSON.parse((await voidbox('status', 'other-1', '--json')).stdout)).toMatchObject({ state: 'running' });
    expect((await voidbox('cancel', 'other-1')).code).toBe(0);
  });

  test('a second Ctrl-C does not wait', async () => {
    const run = start(['run', 'long.yaml', '--run-id', 'long-2']);
    await until('the stage to start', () => run.stderr().includes('==> last started'));
    run.child.kill('SIGINT');
    await until('the first to be heard', () => run.stderr().includes('cancelling the run'));
    run.child.kill('SIGINT');
    const { code, stderr } = await run.done;
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('voidbox status long-2');
  });

  test('following continues when the supervisor is killed: the stack is started again', async () => {
    const run = start(['run', 'long.yaml', '--run-id', 'long-3']);
    await until('the stage to start', () => run.stderr().includes('==> last started'));
    const before = readStackFile();
    process.kill(before.supervisorPid, 'SIGKILL');
    await until('another supervisor', () => ![0, before.supervisorPid].includes(readStackFile().supervisorPid));
    run.child.kill('SIGINT');
    const { code, stderr } = await run.done;
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('starting the embedded stack');
  });

  test('a run that a client terminated gets its last event from the next command that reads it', async () => {
    const started = await voidbox('run', '-d', 'long.yaml', '--run-id', 'long-4');
    expect(started.code, started.stderr).toBe(0);
    const { connectRuns } = await import('../../client/temporal/connect.ts');
    const { createEmbeddedAddress } = await import('../../client/temporal/temporal-address.ts');
    const runs = await connectRuns(createEmbeddedAddress(readStackFile().address));
    await until('its admission', () => {
      try {
        return readFileSync(join(dir, 'state', 'runs', 'long-4', 'events.jsonl'), 'utf8').includes('stage-started');
      } catch {
        return false;
      }
    });
    await runs.client.workflow.getHandle('long-4').terminate('a test');
    await runs.close();
    expect(JSON.parse((await voidbox('status', 'long-4', '--json')).stdout)).toMatchObject({ state: 'terminated' });
    const { stdout } = await voidbox('status', 'long-4');
    expect(stdout).toMatch(/^vm _shared: stopped, /m);
    expect(stdout).toContain('ended from outside: a test (run/terminated)');
  });

  test('logs -f begin with the last lines and continue to the end', async () => {
    const steps = [
      '{ name: first, run: { program: echo, args: [one] } }',
      '{ name: last, depends_on: [first], run: { program: sleep, args: ["6"] } }',
    ];
    writeFileSync(join(dir, 'tailed.yaml'), spec('tailed', steps));
    expect((await voidbox('run', '-d', 'tailed.yaml', '--run-id', 'tailed-1')).code).toBe(0);
    let stages = '';
    while (!stages.includes('"running"'))
      stages = JSON.stringify(
        (
          JSON.parse((await voidbox('status', 'tailed-1', '--json')).stdout) as {
            stages: { id: string; state: string }[];
          }
        ).stages.filter(({ id }) => id === 'last'),
      );
    const { code, stdout } = await voidbox('logs', '-f', 'tailed-1', '--tail', '1');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^==> last started\n==> last succeeded in [^]*==> run succeeded\n$/);
  });

  test('a pruned run is reported as pruned, not as a run on another host', async () => {
    expect((await voidbox('run', 'good.yaml', '--run-id', 'pruned-1')).code).toBe(0);
    expect((await voidbox('prune', '--keep-last', '0')).code).toBe(0);
    for (const command of ['logs', 'result']) {
      const { code, stdout, stderr } = await voidbox(command, 'pruned-1');
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
      expect(stderr).toMatch(
        /^error: run pruned-1 \(succeeded\) was pruned from this host: its events, logs and outputs/,
      );
      expect(stderr).toMatch(/The Temporal server still has its history: http:\S+\/pruned-1\n/);
    }
    expect(JSON.parse((await voidbox('result', 'pruned-1', '--json')).stderr)).toMatchObject({
      error: { code: 'cli/run-pruned' },
    });
    expect((await voidbox('status', 'pruned-1')).stdout).toMatch(
      /^pruned-1 is succeeded; it was pruned from this host: its stages, logs and outputs are deleted\. Its history: http/,
    );
  });

  test('up, ps and down report the stack', async () => {
    expect((await voidbox('up')).code).toBe(0);
    const { stack } = JSON.parse((await voidbox('ps', '--json')).stdout) as { stack: StackInfo };
    expect(stack.supervisorPid).toBe(readStackFile().supervisorPid);
    expect(await voidbox('down')).toMatchObject({ code: 0 });
    expect(JSON.parse((await voidbox('ps', '--json')).stdout)).toMatchObject({ stack: null });
    expect(() => process.kill(stack.serverPid, 0)).toThrow('ESRCH');
  });

  test('after -d every command knows the run, also if the stack had to be started', async () => {
    const fresh = { VOIDBOX_STATE_DIR: join(dir, 'fresh') };
    const typed = (...args: readonly string[]): Promise<Result> => start(args, fresh).done;
    try {
      const run = await typed('run', '-d', 'long.yaml', '--run-id', 'known-1');
      expect(run.code, run.stderr).toBe(0);
      expect((await typed('runs', '--json')).stdout).toContain('{"runs":[{"runId":"known-1","name":"long"');
      expect((await typed('runs', '--waiting')).stdout).toBe('No run waits for an answer.\n');
      expect((await typed('cancel', 'known-1')).code).toBe(0);
    } finally {
      await typed('down');
    }
  });

  test('without VMs no piece is required that only VMs need', async () => {
    const bare = {
      VOIDBOX_STATE_DIR: join(dir, 'bare'),
      VOIDBOX_QEMU: '/nowhere/qemu',
      VOIDBOX_KERNEL: '/nowhere/vmlinuz',
    };
    try {
      expect(await start(['run', 'good.yaml', '--run-id', 'bare-1'], bare).done).toMatchObject({
        code: 0,
        stdout: 'HELLO WORLD\n',
      });
      for (const reader of [['ps'], ['runs'], ['status', 'bare-1'], ['logs', 'bare-1'], ['result', 'bare-1']])
        expect((await start(reader, bare).done).code, reader.join(' ')).toBe(0);
      writeFileSync(join(dir, 'real.yaml'), GOOD.replace('sandbox: { mode: mock, isolation: none }\n', ''));
      const real = await start(['run', 'real.yaml'], bare).done;
      expect(real.code).toBe(3);
      expect(real.stderr).toContain('/nowhere/qemu');
    } finally {
      await start(['down'], bare).done;
    }
  });
});

test('down ends commands that follow a run with 3 and a message how to continue; the stack stays down, and the run continues later', async () => {
  const run = start(['run', 'long.yaml', '--run-id', 'downed']);
  await until('the stage to run', () => run.stderr().includes('==> last started'));
  const logs = start(['logs', '-f', 'downed']);
  // It is following now. A command that begins after `down` starts the stack again, as it should.
  await until('logs to follow', () => logs.stdout().includes('==> last started'));
  expect((await voidbox('down')).stdout).toContain('has stopped');
  for (const follower of [run, logs]) {
    const { code, stderr } = await follower.done;
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('error: the embedded stack was stopped by voidbox down, and run downed has not ended\n');
    expect(stderr).toContain('voidbox up, then voidbox logs downed -f\n');
    expect(stderr.split('error: ')[0]?.split('starting the embedded stack').length).toBeLessThanOrEqual(2);
  }
  expect(readStackFile().supervisorPid).toBe(0);
  expect(JSON.parse((await voidbox('ps', '--json')).stdout)).toMatchObject({ stack: null });
  expect((await voidbox('up')).code).toBe(0);
  const again = start(['logs', 'downed', '-f']);
  await sleep(2_500);
  expect(again.child.exitCode).toBeNull();
  expect((await voidbox('cancel', 'downed')).code).toBe(0);
  expect((await again.done).code).toBe(0);
});
