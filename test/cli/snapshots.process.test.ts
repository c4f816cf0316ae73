/** The commands of snapshots, over folders that no keeper made. `sandbox-api/base-snapshots.vm.test.ts` makes real ones. */
import { Buffer } from 'node:buffer';
import { execFile } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { namePartialFolder } from '../../files/partial-folder.ts';
import { Sandbox } from '../../sandbox-api/index.ts';
import { makeStateFolder } from '../rig/runs/state-folder.ts';
import { leaveChain } from '../rig/vms/saved-chain.ts';
import { leaveSnapshot, SNAPSHOT_KEY as KEY } from '../rig/vms/left-snapshot.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const OTHER = `a1b${KEY.slice(3)}`;
const OLD = 'c'.repeat(64);

let folder: string;
let dir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-snapshot-commands-'));
  dir = join(folder, 'cache', 'snapshots');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function typeWith(variables: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Typed> {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    VOIDBOX_CACHE_DIR: join(folder, 'cache'),
    VOIDBOX_STATE_DIR: join(folder, 'state'),
    ...variables,
  };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [BIN, ...args],
      { cwd: folder, env, timeout: 60_000 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

const type = (...args: readonly string[]): Promise<Typed> => typeWith({}, ...args);

function leaveThree(): void {
  leaveSnapshot(dir, { memoryMib: 192 });
  truncateSync(join(leaveSnapshot(dir, { key: OTHER }), 'state'), 3);
  leaveSnapshot(dir, { key: OLD, hostBoot: 'earlier' });
}

/** Keeps the disks of simulated VMs, and returns their ids. */
async function prepare(...names: readonly (string | undefined)[]): Promise<readonly string[]> {
  const stateDir = makeStateFolder(join(folder, 'state'));
  const ids: string[] = [];
  for (const name of names) {
    const vm = await Sandbox.launch({ mode: 'mock', stateDir, diskMib: 128 });
    const { id } = await vm.checkpoint({ ...(name === undefined ? {} : { name }), withSecrets: name === 'secret' });
    ids.push(id);
    await vm.stop();
  }
  return ids;
}

describe('prepared sandboxes', () => {
  test('are listed after the snapshots, shown and deleted by their name and by the beginning of their id', async () => {
    const [deps, secret, unnamed] = await prepare('deps', 'secret', undefined);
    leaveSnapshot(dir, { memoryMib: 192 });
    const { stdout } = await type('snapshot', 'list');
    expect(stdout).toMatch(new RegExp(`^deps +${deps!.slice(0, 12)} +prepared .* 128 MiB +base .* no$`, 'm'));
    expect(stdout).toMatch(new RegExp(`^secret +${secret!.slice(0, 12)} .* yes$`, 'm'));
    expect(stdout).toMatch(/^1 snapshot, .*\n\n.*\n[^]*\n3 prepared sandboxes, /m);
    const { prepared } = JSON.parse((await type('snapshot', 'list', '--json')).stdout) as { prepared: object[] };
    expect(prepared).toMatchObject([
      { kind: 'prepared', id: deps, name: 'deps', diskMib: 128, withSecrets: false, madeBy: null },
      { id: secret, name: 'secret', withSecrets: true },
      { id: unnamed, name: null },
    ]);
    expect((await type('snapshot', 'show', 'secret')).stdout).toContain('may be on the disk');
    expect(JSON.parse((await type('snapshot', 'show', unnamed!.slice(0, 20), '--json')).stdout)).toMatchObject({
      id: unnamed,
      dir: join(folder, 'state', 'prepared', unnamed!),
    });
    expect((await type('snapshot', 'delete', 'deps', 'none')).code).toBe(2);
    expect((await type('snapshot', 'delete', 'deps', unnamed!, KEY)).stdout).toMatch(
      /^deleted a1a1[^]*deleted deps \([0-9a-f]{12}\)[^]*deleted [0-9a-f]{12} /,
    );
    expect(readdirSync(join(folder, 'state', 'prepared'))).toEqual([secret]);
  });

  test('`snapshot merge` refuses what has no chain, and leaves a chain of one link as it is', async () => {
    const [deps] = await prepare('deps');
    leaveSnapshot(dir);
    const one = leaveChain(join(folder, 'state', 'prepared', 'c0'.repeat(32)), { links: 1, name: 'warm' });
    for (const [text, named] of [
      ['deps', `deps (${deps!.slice(0, 12)}) has no chain`],
      [KEY, 'has no chain'],
      ['nothing', 'nothing'],
    ] as const) {
      const { code, stderr } = await type('snapshot', 'merge', text);
      expect([code, stderr], text).toEqual([2, expect.stringContaining(named)]);
    }
    const { stdout } = await type('snapshot', 'merge', 'warm');
    expect(stdout).toBe('warm (c0c0c0c0c0c0) has one link, so there is nothing to merge\n');
    const { merged, ...rest } = JSON.parse((await type('snapshot', 'merge', 'warm', '--json')).stdout) as {
      merged: object;
    };
    expect(merged).toMatchObject({ kind: 'prepared', id: one.id, name: 'warm', memory: one.memory });
    expect(rest).toEqual({ links: 1, usedBytesBefore: one.usedBytes });
    truncateSync(join(folder, 'state', 'prepared', deps!, 'checkpoint.json'), 3);
    expect(await type('snapshot', 'merge', deps!)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('vm/checkpoint-unfit') as string,
    });
  });

  test('`snapshot create --diff` of a chain with eight links names the merge', async () => {
    await prepare();
    leaveChain(join(folder, 'state', 'prepared', 'c0'.repeat(32)), { links: 8, name: 'warm' });
    const spec = join(folder, 'spec.yaml');
    writeFileSync(
      spec,
      'api_version: v1\nkind: workflow\nname: w\nsandbox: { snapshot: warm }\nworkflow: { steps: [{ name: a, run: { program: "true" } }] }\n',
    );
    const { code, stderr } = await type('snapshot', 'create', spec, '--stage', 'a', '--diff');
    expect([code, stderr]).toEqual([2, expect.stringContaining('voidbox snapshot merge warm')]);
    expect(stderr).toContain('the chain of "warm" has 8 links, the most');
  });

  test('`snapshot create --stage` refuses what it cannot keep before it starts a VM', async () => {
    await prepare('deps');
    const spec = join(folder, 'spec.yaml');
    const steps =
      '[{ name: a, run: { program: "true" } }, { name: b, depends_on: [a], secrets: [KEY], run: { program: "true" } }]';
    writeFileSync(spec, `api_version: v1\nkind: workflow\nname: w\nworkflow: { steps: ${steps} }\n`);
    const create = (...args: readonly string[]): Promise<Typed> =>
      typeWith({ KEY: 'value' }, 'snapshot', 'create', spec, ...args);
    for (const [args, text] of [
      [['--name', 'x'], '--name needs --stage'],
      [['--full'], '--full needs --stage'],
      [['--stage', 'a', '--full', '--diff'], '--full and --diff exclude each other'],
      [['--stage', 'a', '--diff'], '--diff needs a VM that continues with the memory of a prepared sandbox'],
      [['--stage', 'c'], 'the spec has no stage "c"'],
      [['--stage', 'a', '--name', '../x'], '"../x" is not a name of a prepared sandbox'],
      [['--stage', 'b', '--name', 'x'], 'the disk may contain secrets: its commands read `KEY` of this machine'],
    ] as const)
      expect(await create(...args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(text) });
    const used = await create('--stage', 'a', '--name', 'deps');
    expect(used.stderr).toContain('there is a prepared sandbox deps (');
    expect(used.code).not.toBe(0);
    expect(readdirSync(join(folder, 'state', 'prepared'))).toHaveLength(1);
  });
});

describe('`snapshot list`', () => {
  test('a host without the folder has no snapshots', async () => {
    expect(await type('snapshot', 'list')).toEqual({ code: 0, stdout: 'no snapshots\n', stderr: '' });
    expect(JSON.parse((await type('snapshot', 'list', '--json')).stdout)).toEqual({
      dir,
      isOn: true,
      maxMib: 2_048,
      snapshots: [],
      omitted: 0,
      prepared: [],
      damagedPrepared: [],
    });
  });

  test('damaged snapshots and those of earlier boots are listed with the reason, without colours in a pipe', async () => {
    leaveThree();
    const { code, stdout, stderr } = await type('snapshot', 'list');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^a1a1a1a1a1a1 +base +\S+ \S+ +192 MiB, 1 vCPU, qemu tcg +.*usable$/m);
    expect(stdout).toMatch(/^a1b1a1a1a1a1 .*damaged: its state has 3 bytes, expected 10$/m);
    expect(stdout).toMatch(/^cccccccccccc .*of an earlier boot of the host$/m);
    expect(stdout).not.toContain('\u001b');
    expect(stderr).toContain('voidbox prune');
    const json = JSON.parse((await type('snapshot', 'list', '--json')).stdout) as { snapshots: object[] };
    expect(json.snapshots).toHaveLength(3);
    expect(json.snapshots).toContainEqual(
      expect.objectContaining({
        kind: 'base',
        key: OTHER,
        state: 'damaged',
        problem: 'its state has 3 bytes, expected 10',
      }),
    );
  });

  test('a folder that others may enter ends the command with the remedy', async () => {
    leaveThree();
    chmodSync(dir, 0o755);
    const { code, stdout, stderr } = await type('snapshot', 'list', '--json');
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
    expect(JSON.parse(stderr)).toMatchObject({
      error: {
        code: 'cli/no-snapshots',
        remedy: `chmod 700 ${dir}`,
        message: expect.stringContaining('mode 0755') as string,
      },
    });
  });
});

test('`snapshot show` shows the parts of the key, and finds a snapshot by a prefix', async () => {
  leaveThree();
  const { code, stdout } = await type('snapshot', 'show', 'a1a');
  expect(code).toBe(0);
  expect(stdout).toContain(`key            ${KEY}\n`);
  expect(stdout).toContain('kernel         /k\n');
  const { stdout: json } = await type('snapshot', 'show', KEY, '--json');
  expect(JSON.parse(json)).toMatchObject({ key: KEY, dir, parts: { keeper: '0.1.0' } });
  expect(await type('snapshot', 'show')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('List snapshots: voidbox snapshot list') as string,
  });
});

describe('`snapshot delete`', () => {
  test('an empty prefix, an unknown one and an ambiguous one delete nothing', async () => {
    leaveThree();
    for (const [prefix, message] of [
      ['', 'the key of a snapshot is empty'],
      ['ff', 'no snapshot has a key that begins with "ff"'],
      ['../', 'no snapshot has a key that begins with "../"'],
      ['a1', `2 snapshots have keys that begin with "a1": "${KEY}", "${OTHER}"`],
    ] as const) {
      const { code, stdout, stderr } = await type('snapshot', 'delete', OLD, prefix);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(message);
    }
    expect(readdirSync(dir)).toHaveLength(3);
  });

  test('named snapshots are deleted, also damaged ones and links, and nothing behind a link', async () => {
    leaveThree();
    const target = join(folder, 'target');
    writeFileSync(target, 'kept');
    symlinkSync(target, join(dir, 'link'));
    const { code, stdout } = await type('snapshot', 'delete', 'a1a', OTHER, OTHER, 'link', '--json');
    expect(code).toBe(0);
    const { deleted } = JSON.parse(stdout) as { deleted: { key: string; kind: string }[] };
    expect(deleted.map(({ key }) => key)).toEqual([KEY, OTHER, 'link']);
    expect(readdirSync(dir)).toEqual([OLD]);
    expect(readdirSync(folder)).toContain('target');
    expect((await type('snapshot', 'delete', 'c')).stdout).toMatch(/^deleted cccccccccccc \(.*\)\n$/);
  });
});

describe('`snapshot create`', () => {
  const spec = (sandbox: string): string =>
    `kind: workflow\nname: s\nsandbox: ${sandbox}\nworkflow: { steps: [{ name: a, run: { program: x } }] }\n`;

  test('a host without snapshots is an error of the environment', async () => {
    writeFileSync(join(folder, 's.yaml'), spec('{ memory_mb: 256 }'));
    const { code, stderr } = await typeWith({ VOIDBOX_SNAPSHOTS: 'off' }, 'snapshot', 'create', 's.yaml', '--json');
    expect(code).toBe(3);
    expect(stderr).toContain('"cli/no-snapshots"');
    expect(stderr).toContain('unset VOIDBOX_SNAPSHOTS');
  });

  test('a spec whose VMs boot needs no snapshot, and a wrong spec is refused', async () => {
    writeFileSync(join(folder, 's.yaml'), spec('{ snapshot: none }'));
    expect(await type('snapshot', 'create', 's.yaml')).toMatchObject({
      code: 0,
      stdout: 'all VMs of the spec boot (`snapshot: none`)\n',
    });
    expect(JSON.parse((await type('snapshot', 'create', 's.yaml', '--json')).stdout)).toEqual({
      snapshots: [],
      bootingVms: 1,
    });
    writeFileSync(join(folder, 's.yaml'), spec('{ memory_mb: -1 }'));
    expect(await type('snapshot', 'create', 's.yaml')).toMatchObject({ code: 2, stdout: '' });
  });
});

test('`prune` deletes damaged snapshots and those of earlier boots, and a dry run only lists them', async () => {
  leaveThree();
  const dry = await type('prune', '--dry-run', '--json');
  expect(JSON.parse(dry.stdout)).toMatchObject({
    snapshots: expect.arrayContaining([
      expect.objectContaining({ key: OTHER, state: 'damaged' }),
      expect.objectContaining({ key: OLD, state: 'earlier-boot' }),
    ]) as object,
    snapshotsKept: null,
  });
  expect(readdirSync(dir)).toHaveLength(3);
  expect((await type('prune')).stdout).toMatch(/deleted 2 snapshots from which no VM can start \(.*\): \w+, \w+\n/);
  expect(readdirSync(dir)).toEqual([KEY]);
});

test('`prune` lists the prepared sandboxes, deletes none of them, and removes what a dead process has left', async () => {
  const [id, other] = await prepare('deps', undefined);
  const prepared = join(folder, 'state', 'prepared');
  const name = basename(namePartialFolder(join(prepared, 'x'))).replace(/-\d+(\.\w+\.partial)$/, '-1$1');
  mkdirSync(join(prepared, name));
  writeFileSync(join(prepared, name, 'disk'), Buffer.alloc(8_192));
  const dry = await type('prune', '--dry-run');
  expect(dry.stdout).toContain(
    'would delete 1 folder of prepared sandboxes that no process makes any longer (8.0 KiB)',
  );
  const { stdout } = await type('prune', '--json');
  expect(JSON.parse(stdout)).toMatchObject({
    preparedKept: [
      { id, name: 'deps' },
      { id: other, name: null },
    ],
    preparedRemains: { count: 1, sizeBytes: 8_192 },
  });
  expect((await type('prune', '--older-than', '0s')).stdout).toMatch(
    new RegExp(`^2 prepared sandboxes \\(.*\\) stay: deps \\(${id!.slice(0, 12)}\\), ${other!.slice(0, 12)}$`, 'm'),
  );
  expect(readdirSync(prepared).sort()).toEqual([id, other].sort());
});

test('`doctor` shows number, size and limit of prepared sandboxes, and names damaged ones', async () => {
  const [id] = await prepare('deps');
  const { prepared } = JSON.parse((await type('doctor', '--json')).stdout) as { prepared: object };
  expect(prepared).toMatchObject({
    maxMib: 10_240,
    count: 1,
    sizeBytes: expect.any(Number) as number,
    damagedCount: 0,
  });
  expect((await type('doctor')).stdout).toMatch(/^ {2}✓ prepared {3}1 \(.* of at most 10 GiB\)$/m);
  const dir = join(folder, 'state', 'prepared', id!);
  truncateSync(join(dir, 'checkpoint.json'), 3);
  writeFileSync(join(dir, 'disk'), Buffer.alloc(2 * 1_048_576));
  const full = await typeWith({ VOIDBOX_PREPARED_MAX_MB: '1' }, 'doctor');
  expect(full.stdout).toContain(
    ': there is no room for another prepared sandbox\n    fix: voidbox snapshot delete ID, or',
  );
  const short = basename(dir).slice(0, 12);
  expect(full.stdout).toMatch(
    new RegExp(`no VM can start from ${dir}: it is not JSON\\n    fix: .*voidbox snapshot delete ${short}\\n`),
  );
  const listed = await type('snapshot', 'list');
  expect(listed.stdout).toMatch(new RegExp(`^damaged: ${short}: it is not JSON$`, 'm'));
  expect(JSON.parse((await type('snapshot', 'list', '--json')).stdout)).toMatchObject({
    damagedPrepared: [{ id: basename(dir), problem: 'it is not JSON' }],
  });
  expect((await type('snapshot', 'show', short)).stdout).toMatch(/^state .*damaged: it is not JSON$/m);
  expect((await type('snapshot', 'delete', short)).stdout).toMatch(new RegExp(`^deleted ${short} \\(`));
  expect(existsSync(dir)).toBe(false);
});

test('`doctor` shows the snapshots, and names a folder that others may enter with the remedy', async () => {
  leaveThree();
  const { snapshots } = JSON.parse((await type('doctor', '--json')).stdout) as { snapshots: object };
  expect(snapshots).toMatchObject({ dir, isOn: true, problem: null, count: 3, uselessCount: 2 });
  chmodSync(dir, 0o755);
  const { stdout } = await type('doctor');
  expect(stdout).toContain(
    `! snapshots each VM boots: other users may enter ${dir} (mode 0755)\n    fix: chmod 700 ${dir}`,
  );
  expect((await typeWith({ VOIDBOX_SNAPSHOTS: 'off' }, 'doctor')).stdout).toContain(
    'snapshots off (VOIDBOX_SNAPSHOTS=off)',
  );
});

test('an option of Void-Box is refused with the form to write', async () => {
  writeFileSync(join(folder, 's.yaml'), 'kind: workflow\n');
  const { code, stderr } = await type('run', 's.yaml', '--auto-snapshot');
  expect(code).toBe(2);
  expect(stderr).toContain("unknown option '--auto-snapshot'");
  expect(stderr).toContain('voidbox snapshot create FILE');
});
