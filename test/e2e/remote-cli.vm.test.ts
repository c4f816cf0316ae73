/** A command line with the runs of another state folder: it starts, follows, reads and cancels them over the API. */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CliResult, Rig, RunningCli } from './rig.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const SPEC = `api_version: v1
kind: workflow
name: from-elsewhere
sandbox:
  memory_mb: 256
  mounts: [{ host: data, guest: /data }]
workflow:
  output_step: work
  steps:
    - name: work
      secrets: [TOKEN]
      run: { program: sh, args: [-c, "cat /data/note /data/deep/link; test -x /data/tool && echo a program; echo \${#TOKEN} characters; cat /workspace/input.json"] }
`;

/** The variables of a command line on another machine, with a state folder of its own. */
function elsewhere(rig: Rig): Readonly<Record<string, string>> {
  return {
    VOIDBOX_STATE_DIR: join(rig.specDir, 'elsewhere'),
    VOIDBOX_SERVER: `unix:${join(rig.stateDir, 'api.sock')}`,
    TOKEN: 'sesame-7261',
  };
}

function start(rig: Rig, ...args: readonly string[]): RunningCli {
  return rig.startWith(elsewhere(rig), ...args);
}

async function run(rig: Rig, ...args: readonly string[]): Promise<CliResult> {
  return await start(rig, ...args).done;
}

/** Collects the output of a command while it runs. */
function watch({ child }: RunningCli): () => string {
  let text = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (part: string) => (text += part));
  return () => text;
}

/** Reads a path of the HTTP API on the socket of the machine of the run. */
function read(rig: Rig, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socketPath = join(rig.stateDir, 'api.sock');
    get({ socketPath, path: `/api/v1/${path}`, agent: false, timeout: 20_000 }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.on('error', reject).on('end', () => resolve(text));
    })
      .on('timeout', () => reject(new Error(`no answer to ${path}`)))
      .on('error', reject);
  });
}

/** Reads a run with every command and route that show it as JSON, and expects one form of it. */
async function expectOneForm(rig: Rig, runId: string, name: string): Promise<void> {
  const typed = new Map<string, string>();
  for (const args of [
    ['result', runId],
    ['status', runId],
    ['artifacts', runId],
    ['logs', runId],
    ['runs', '--limit', '1', '--name', name],
  ]) {
    const here = await rig.cli(...args, '--json');
    expect(await run(rig, ...args, '--json'), args.join(' ')).toEqual(here);
    typed.set(args[0]!, here.stdout);
  }
  const parse = (command: string): object => JSON.parse(typed.get(command)!) as object;
  const path = `runs/${encodeURIComponent(runId)}`;
  const readJson = async (part: string): Promise<object> => JSON.parse(await read(rig, part)) as object;
  expect(await readJson(`${path}/result`)).toEqual(parse('result'));
  expect(await readJson(`${path}/artifacts`)).toEqual(parse('artifacts'));
  expect(await read(rig, `${path}/events`)).toBe(typed.get('logs'));
  const { runs } = parse('runs') as { readonly runs: readonly object[] };
  expect(await readJson(`runs?limit=1&name=${name}`)).toMatchObject({ runs });
  expect(await readJson(path)).toEqual(runs[0]);
  // `status` has more of each stage.
  expect(parse('status')).toMatchObject(runs[0]!);
}

test('a run from another state folder has its mount, its variable and its input, and its result comes back', async () => {
  const rig = theRig();
  const data = join(rig.specDir, 'data');
  mkdirSync(join(data, 'deep'), { recursive: true });
  writeFileSync(join(data, 'note'), 'a note of the other machine\n');
  writeFileSync(join(data, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
  symlinkSync('../note', join(data, 'deep', 'link'));
  symlinkSync('/etc/passwd', join(data, 'deep', 'out'));
  expect((await rig.cli('up')).code).toBe(0);
  const file = rig.spec('elsewhere.yaml', SPEC);

  const done = await run(rig, 'run', file, '--run-id', 'from/elsewhere', '--input', '{"a":1}', '--json', '--events');
  expect(done.stderr).toContain('sending');
  const lines = done.stdout.trimEnd().split('\n');
  const events = lines.slice(0, -1).map((line) => JSON.parse(line) as { readonly seq: number });
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, at) => at + 1));
  const result = JSON.parse(lines.at(-1)!) as Readonly<Record<string, unknown>>;
  const text = 'a note of the other machine\n'.repeat(2);
  expect(result).toMatchObject({ state: 'succeeded', outputText: `${text}a program\n11 characters\n{"a":1}` });
  expect(done.code).toBe(0);

  // The machine of the run and its API show the same, and the folder of the mount is not sent again.
  await expectOneForm(rig, 'from/elsewhere', 'from-elsewhere');
  const again = await run(rig, 'run', file, '--run-id', 'again', '--input', '{}', '--json');
  expect(again.code).toBe(0);
  expect(again.stderr).not.toContain('sending');
  expect(await run(rig, 'diff', 'from/elsewhere', 'again', '--json')).toMatchObject({ code: 1 });

  const taken = await run(rig, 'run', file, '--run-id', 'again', '--json');
  expect(JSON.parse(taken.stderr.trimEnd().split('\n').at(-1)!)).toMatchObject({ error: { code: 'cli/usage' } });
  expect(taken.code).toBe(2);
  // It started no stack of its own, and has no record of the run.
  expect(existsSync(join(rig.specDir, 'elsewhere', 'stack.json'))).toBe(false);
  const logs = join(rig.stateDir, 'logs');
  for (const name of readdirSync(logs)) expect(readFileSync(join(logs, name), 'utf8'), name).not.toContain('sesame');
});

test('Ctrl-C cancels the run of another machine, and a follower with a lost connection has every event', async () => {
  const rig = theRig();
  expect((await rig.cli('up')).code).toBe(0);
  const file = rig.spec(
    'long.yaml',
    `api_version: v1
kind: workflow
name: long
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: work
      run: { program: sh, args: [-c, "echo begun; sleep 3; echo after the crash; sleep 600"] }
    - name: last
      finally: true
      run: { program: echo, args: [the end] }
`,
  );
  const running = start(rig, 'run', file, '--run-id', 'long');
  const shown = watch(running);
  await until('the output of the stage', 120_000, () => shown().includes('begun'));
  const following = start(rig, 'logs', '-f', 'long');
  const followed = watch(following);
  await until('the follower', 20_000, () => followed().includes('begun'));
  const api = rig.processes().find(({ command }) => command.includes('dist/server/main.js'))!;
  rig.kill(api.pid);
  await until('the output after the crash', 60_000, () => followed().includes('after the crash'));
  await until('the output after the crash of the run command', 60_000, () => shown().includes('after the crash'));

  const keeper = rig.keepers()[0]!;
  running.child.kill('SIGINT');
  await until(
    'the process of the guest to end',
    20_000,
    () => rig.keepers().length === 0 || rig.execRecords(keeper).some(({ state }) => state === 'ended'),
    20,
  );
  expect((await running.done).code).toBe(130);
  expect((await following.done).code).toBe(0);
  for (const text of [shown(), followed()]) {
    expect(text.match(/begun/g)).toHaveLength(1);
    expect(text).toContain('the end');
  }
  expect(JSON.parse((await run(rig, 'cancel', 'long', '--json')).stdout)).toEqual({
    runId: 'long',
    state: 'cancelled',
    wasRunning: false,
  });
});

test('an answer from another state folder gets the receipt of the machine of the run', async () => {
  const rig = theRig();
  expect((await rig.cli('up')).code).toBe(0);
  const file = rig.spec(
    'ask.yaml',
    `api_version: v1
kind: workflow
name: ask
workflow:
  steps:
    - name: ok
      approval: { message: Go on? }
`,
  );
  const detached = await run(rig, 'run', file, '--run-id', 'ask', '--detach', '--json');
  expect(JSON.parse(detached.stdout)).toEqual({ runId: 'ask', uiUrl: null });
  await rig.eventOf('ask', 'stage-asking');
  expect((await run(rig, 'runs', '--waiting')).stdout).toContain('ask');
  const approved = await run(rig, 'approve', 'ask', '--by', 'ada', '--json');
  expect(JSON.parse(approved.stdout)).toMatchObject({ runId: 'ask', stage: 'ok', decision: 'approve', by: 'ada' });
  expect((await rig.finish('ask')).outcome.state).toBe('succeeded');
  expect(await run(rig, 'approve', 'ask', '--by', 'ada', '--json')).toEqual(approved);
  const refused = await run(rig, 'reject', 'ask', '--by', 'ada', '--json');
  expect(refused).toEqual(await rig.cli('reject', 'ask', '--by', 'ada', '--json'));
  expect(refused.code).toBe(1);

  // A retry and a fork from elsewhere show and start the same as on the machine of the run.
  const other = rig.spec(
    'ask-too.yaml',
    `${readFileSync(file, 'utf8')}    - { name: too, depends_on: [ok], approval: { message: Sure? } }\n`,
  );
  for (const [runId, args] of [
    ['retried', ['retry', 'ask', '--from', 'ok']],
    ['forked', ['fork', 'ask', other]],
  ] as const) {
    const started = await run(rig, ...args, '--run-id', runId, '--detach', '--json');
    const here = await rig.cli(...args, '--run-id', `${runId}-here`, '--detach', '--json');
    expect(started.code, started.stderr).toBe(0);
    const { uiUrl: _url, ...shown } = JSON.parse(here.stdout) as Readonly<Record<string, unknown>>;
    expect(JSON.parse(started.stdout)).toEqual({ ...shown, runId, uiUrl: null });
    await rig.eventOf(runId, 'stage-asking');
    expect((await run(rig, 'cancel', runId)).code).toBe(0);
  }
});
