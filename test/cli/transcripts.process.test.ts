/** The output of the command line, word for word, for commands that need no server and no VM. */
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { leaveFinishedRuns } from './finished-runs.ts';
import { Terminal } from './transcript.ts';

let terminal: Terminal;
beforeEach(() => {
  terminal = new Terminal();
});
afterEach(() => terminal.dispose());

/** The command, its output on both streams, and its exit code, as a user sees them on a screen. */
async function transcript(line: string): Promise<string> {
  const args = line.split(' ');
  const { code, stdout, stderr } = await terminal.type(...args);
  const streams = [stdout === '' ? '' : `stdout:\n${stdout}`, stderr === '' ? '' : `stderr:\n${stderr}`].filter(
    (text) => text !== '',
  );
  return [`$ voidbox ${line}`, ...streams.map((text) => text.trimEnd()), `exit ${code}`]
    .join('\n')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');
}

describe('usage', () => {
  test('no command', async () => {
    const typed = await terminal.type();
    expect(typed).toMatchObject({ code: 2, stdout: '' });
    expect(typed.stderr.trimEnd().split('\n').length).toBeLessThanOrEqual(6);
    expect(typed.stderr).toMatch(/^ {2}voidbox init .*\n {2}voidbox run voidbox\.yaml /m);
  });

  test('every command of the help has help of its own', async () => {
    const { stdout } = await terminal.type('--help');
    const names = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map((match) => match[1] ?? '');
    expect(names.length).toBeGreaterThan(12);
    const helps = await Promise.all(names.map((name) => terminal.type(name, '--help')));
    for (const [index, help] of helps.entries()) {
      expect(help).toMatchObject({ code: 0, stderr: '' });
      expect(help.stdout).toContain(`voidbox ${names[index]}`);
    }
  }, 300_000);

  test.each([
    'rnu',
    'rnu --help',
    'help rnu',
    'run',
    'run none.yaml',
    'worker --help',
    'down --help',
    'skill --help',
    'run none.yaml --colour',
    'status none',
    'prune --older-than soon',
    'init .',
    'init none/voidbox.yaml',
  ])('%s', async (line) => {
    expect(await transcript(line)).toMatchSnapshot();
  });

  test('in JSON the error is JSON too', async () => {
    const { code, stdout, stderr } = await terminal.type('status', 'none', '--json');
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(JSON.parse(stderr)).toMatchObject({ error: { message: expect.stringContaining('none') } });
  });
});

describe('a spec', () => {
  test('init writes one that is valid, and does not write over it', async () => {
    expect(await transcript('init')).toMatchSnapshot('init');
    expect(await transcript('validate voidbox.yaml')).toMatchSnapshot('validate');
    expect((await terminal.type('init')).code).toBe(2);
    expect(readdirSync(terminal.dir)).toEqual(['voidbox.yaml']);
  });

  test('everything that is wrong is shown at once, with its place', async () => {
    terminal.file(
      'bad.yaml',
      `api_version: v1
kind: workflow
name: bad
sandbox: { memory_mb: lots, network: true }
workflow:
  steps:
    - name: a
      run: { program: echo, args: [hi], stdin_form: b }
      depends_on: [nobody]
    - name: a
      run: { program: echo }
`,
    );
    expect(await transcript('validate bad.yaml')).toMatchSnapshot();
    const { code, stdout, stderr } = await terminal.type('validate', 'bad.yaml', '--json');
    expect(code).toBe(2);
    const { diagnostics } = JSON.parse(stdout === '' ? stderr : stdout) as {
      diagnostics: { line: number; code: string }[];
    };
    expect([...new Set(diagnostics.map(({ line }) => line))]).toEqual([4, 8, 9, 10]);
  });
});

describe('a mistake in arguments or settings is reported before anything starts', () => {
  const steps = 'workflow:\n  steps:\n    - name: a\n      run: { program: ls }\n';

  test('a spec that is not UTF-8', async () => {
    terminal.file('latin.yaml', Buffer.from(`kind: workflow\nname: a # caf\xe9\n${steps}`, 'latin1'));
    expect(await transcript('validate latin.yaml')).toMatchSnapshot();
  });

  test('a mount that is not there', async () => {
    terminal.file(
      'mount.yaml',
      `kind: workflow\nname: m\nsandbox: { mounts: [{ host: ./data, guest: /data }] }\n${steps}`,
    );
    expect(await transcript('run mount.yaml')).toMatchSnapshot();
  });

  test('an input file that is not there', async () => {
    terminal.file('spec.yaml', `kind: workflow\nname: m\n${steps}`);
    expect(await transcript('run spec.yaml --input @none.json')).toMatchSnapshot();
  });

  test('a state folder that is a file', async () => {
    terminal.file('spec.yaml', `kind: workflow\nname: m\n${steps}`);
    terminal.file('file', '');
    terminal.variables = { VOIDBOX_STATE_DIR: join(terminal.dir, 'file') };
    expect(await transcript('run spec.yaml')).toMatchSnapshot();
  });

  test('a variable that means nothing', async () => {
    terminal.variables = { VOIDBOX_KERNEL_KIND: 'debain' };
    expect(await transcript('runs')).toMatchSnapshot('as text');
    expect(await transcript('runs --json')).toMatchSnapshot('in JSON');
  });

  test('a Temporal profile or file that is not there', async () => {
    terminal.variables = { TEMPORAL_CONFIG_FILE: join(terminal.dir, 'none.toml') };
    expect(await transcript('status some-run')).toMatchSnapshot('file');
    terminal.file('temporal.toml', '[profile.here]\naddress = "127.0.0.1:1"\n');
    terminal.variables = { TEMPORAL_CONFIG_FILE: join(terminal.dir, 'temporal.toml'), TEMPORAL_PROFILE: 'gone' };
    expect(await transcript('status some-run')).toMatchSnapshot('profile');
  });

  test('up, where the environment names your own server', async () => {
    terminal.variables = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    expect(await transcript('up')).toMatchSnapshot();
  });
});

describe('runs that have ended', () => {
  beforeEach(async () => {
    await leaveFinishedRuns(terminal.stateDir);
    // `prune` lists useless snapshots of the cache too.
    terminal.variables = { VOIDBOX_CACHE_DIR: join(terminal.dir, 'cache') };
  });

  test.each([
    'runs',
    'status sales-good',
    'status sales-bad',
    'logs sales-bad',
    'result sales-good',
    'result sales-bad',
    'prune --dry-run',
  ])('%s', async (line) => {
    // Sizes on disk depend on the number of the process that wrote.
    expect((await transcript(line)).replaceAll(/\(\d\.\d KiB\)/g, '(SIZE)')).toMatchSnapshot();
  });

  test('a run is known by the beginning of its id, if only one id begins so', async () => {
    expect((await terminal.type('result', 'sales-g')).stdout).toBe('the result\n');
    expect((await terminal.type('result', 'sales')).code).toBe(2);
  });

  test('logs have times, a beginning, an end and a text to look for', async () => {
    const whole = (await terminal.type('logs', 'sales-bad')).stdout.trimEnd().split('\n');
    const timed = (await terminal.type('logs', 'sales-bad', '--timestamps')).stdout.trimEnd().split('\n');
    expect(timed.map((line) => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /, ''))).toEqual(whole);
    expect((await terminal.type('logs', 'sales-bad', '--tail', '2')).stdout.trimEnd().split('\n')).toEqual(
      whole.slice(-2),
    );
    expect(await transcript('logs sales-bad --grep row')).toBe(
      '$ voidbox logs sales-bad --grep row\nstdout:\n[load] loaded 9 rows\n[check] row 7 is empty\nexit 0',
    );
    expect((await terminal.type('logs', 'sales-bad', '--grep', 'rows', '--stage', 'check')).stdout).toBe('');
    expect(await transcript('logs sales-bad --network')).toBe(
      '$ voidbox logs sales-bad --network\nstderr:\n==> no VM was refused a connection, and none has ended one\nexit 0',
    );
    expect((await terminal.type('logs', 'sales-bad', '--network', '--tail', '2')).stderr).toBe('');
    // The runs ended ten and a half days ago; the second stage ended half a second after the first.
    expect((await terminal.type('logs', 'sales-bad', '--since', '10d')).stdout).toBe('');
    expect((await terminal.type('logs', 'sales-bad', '--since', '11d')).stdout).toBe(`${whole.join('\n')}\n`);
    const second = timed.find((line) => line.includes('row 7'))!.slice(0, 24);
    const since = (await terminal.type('logs', 'sales-bad', '--since', second)).stdout;
    expect(since.startsWith('==> load')).toBe(false);
    expect(since).toContain('[check] row 7 is empty\n');
    expect(since).not.toContain('loaded 9 rows');
    const events = (await terminal.type('logs', 'sales-bad', '--since', second, '--json')).stdout;
    expect(events).not.toContain('loaded 9 rows');
    expect(events).toContain('row 7 is empty');
  });

  test.each([
    ['--tail 10001', /at most 10000/],
    ['--tail some', /a number of lines/],
    ['--since yesterday', /an age \(90s, 10m, 2h, 1d\), a time/],
    ['--json --grep x', /--grep and --json cannot be combined/],
    ['--raw --network', /--network and --raw cannot be combined\n {2}Remove one of them\./],
    ['--raw --tools full', /--tools and --raw cannot be combined/],
    ['--raw --timestamps', /--timestamps and --raw cannot be combined/],
  ])('logs %s is refused', async (flags, why) => {
    const { code, stdout, stderr } = await terminal.type('logs', 'sales-bad', ...flags.split(' '));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(why);
  });

  test('logs in JSON are the events', async () => {
    const { stdout } = await terminal.type('logs', 'sales-good', '--json');
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number; body: { type: string } });
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)?.body.type).toBe('run-finished');
  });

  test('prune deletes them, and then there is nothing', async () => {
    expect((await terminal.type('prune', '--older-than', '1h')).code).toBe(0);
    expect(readdirSync(join(terminal.stateDir, 'runs'))).toEqual([]);
    expect(JSON.parse((await terminal.type('runs', '--json')).stdout)).toEqual({
      runs: [],
      hasMore: false,
      admitting: null,
      asking: null,
    });
  });

  test('prune keeps the last ones however old they are, and takes no word for a number', async () => {
    expect(JSON.parse((await terminal.type('prune', '--keep-last', '2', '--json')).stdout)).toMatchObject({ runs: [] });
    expect(JSON.parse((await terminal.type('prune', '--keep-last', '1', '--json')).stdout)).toMatchObject({
      runs: ['sales-bad'],
    });
    expect(readdirSync(join(terminal.stateDir, 'runs'))).toEqual(['sales-good']);
    expect((await terminal.type('prune', '--keep-last', 'all')).code).toBe(2);
  });

  test('prune frees at once what no run names any more', async () => {
    expect(
      JSON.parse((await terminal.type('prune', '--keep-last', '0', '--dry-run', '--artifacts-now', '--json')).stdout),
    ).toMatchObject({ artifacts: 1 });
    expect(
      JSON.parse((await terminal.type('prune', '--keep-last', '0', '--artifacts-now', '--json')).stdout),
    ).toMatchObject({
      runs: ['sales-bad', 'sales-good'],
      artifacts: 1,
      artifactBytes: 11,
      youngArtifacts: 0,
    });
    expect((await terminal.type('prune', '--artifacts-now')).stderr).toBe('');
  });

  test('prune with both conditions deletes only runs that both release, and its help explains it', async () => {
    expect(
      JSON.parse((await terminal.type('prune', '--older-than', '1m', '--keep-last', '2', '--json')).stdout),
    ).toMatchObject({ runs: [] });
    expect(
      JSON.parse((await terminal.type('prune', '--older-than', '30d', '--keep-last', '0', '--json')).stdout),
    ).toMatchObject({ runs: [] });
    const { runs } = JSON.parse(
      (await terminal.type('prune', '--older-than', '1m', '--keep-last', '1', '--json')).stdout,
    ) as { runs: string[] };
    expect(runs).toEqual(['sales-bad']);
    expect((await terminal.type('prune', '--help')).stdout).toContain('Each option protects runs');
  });
});

describe('a run whose events are damaged', () => {
  beforeEach(async () => {
    await leaveFinishedRuns(terminal.stateDir);
    const log = join(terminal.stateDir, 'runs/sales-bad/events.jsonl');
    const [first = '', ...rest] = readFileSync(log, 'utf8').split('\n');
    // Repeats the first line at the end, with a number that skips one.
    const late = first.replace('"commit":1', '"commit":3').replace('"seq":1', '"seq":99');
    writeFileSync(log, [first, ...rest.filter((line) => line !== ''), late, ''].join('\n'));
  });

  test.each([
    'runs',
    'status sales-bad',
    'logs sales-bad',
    'result sales-bad',
    'prune --older-than 1h --keep-last 0',
    'set-aside sales-good',
    'set-aside',
  ])('%s', async (line) => {
    // Old snapshots lie in the cache of the machine.
    const withoutSnapshots = (await transcript(line)).replace(/\n *deleted \d+ snapshots? from which .*/, '');
    expect(
      withoutSnapshots.replaceAll(/\(\d\.\d KiB\)/g, '(SIZE)').replaceAll(/byte \d+/g, 'byte N'),
    ).toMatchSnapshot();
  });

  test('is set aside, and the others are as they were', async () => {
    expect(JSON.parse((await terminal.type('doctor', '--json')).stdout)).toMatchObject({
      durability: 'process',
      damagedRuns: [{ runId: 'sales-bad' }],
    });
    const doctor = (await terminal.type('doctor')).stdout;
    expect(doctor).toContain('voidbox set-aside sales-bad');
    expect(doctor).toContain('durability process (runs survive the death of any process');
    expect((await terminal.type('set-aside', 'sales-b', '--dry-run')).stdout).toContain('would set sales-bad aside');
    expect((await terminal.type('set-aside', '--all')).code).toBe(0);
    expect(readdirSync(join(terminal.stateDir, 'runs'))).toEqual(['sales-good']);
    expect(readdirSync(join(terminal.stateDir, 'damaged'))).toEqual(['sales-bad']);
    expect((await terminal.type('set-aside', '--all')).stdout).toBe('No run is damaged.\n');
    expect((await terminal.type('status', 'sales-bad')).code).toBe(2);
    // An admitted run without an event may be waiting for room on the disk. While no server answers, only its name
    // moves it.
    const beginning = join(terminal.stateDir, 'runs', 'beginning');
    mkdirSync(join(beginning, 'records'), { recursive: true });
    writeFileSync(join(beginning, 'records', 'admission.json'), '{"v":1}');
    utimesSync(join(beginning, 'records', 'admission.json'), 1_000_000_000, 1_000_000_000);
    expect(JSON.parse((await terminal.type('doctor', '--json')).stdout)).toMatchObject({
      damagedRuns: [{ runId: 'beginning' }],
    });
    expect((await terminal.type('set-aside', '--all')).stdout).toMatch(
      /^did not move beginning: it has no event yet, and no server answers.*\n.*set-aside beginning\n$/,
    );
    expect(JSON.parse((await terminal.type('set-aside', '--all', '--json')).stdout)).toMatchObject({
      runs: [],
      left: [{ runId: 'beginning' }],
    });
    expect(readdirSync(join(terminal.stateDir, 'runs')).toSorted()).toEqual(['beginning', 'sales-good']);
    expect((await terminal.type('set-aside', 'beginning')).stdout).toContain(
      'set beginning aside, to /DIR/state/damaged/beginning',
    );
    // No run with its id begins while the folder is there.
    terminal.file(
      'spec.yaml',
      'kind: workflow\nname: a\nworkflow:\n  steps:\n    - name: a\n      run: { program: ls }\n',
    );
    const again = await terminal.type('run', 'spec.yaml', '--mode', 'mock', '--run-id', 'sales-bad');
    expect([again.code, again.stderr]).toEqual([3, expect.stringContaining('set aside')]);
  });
});
