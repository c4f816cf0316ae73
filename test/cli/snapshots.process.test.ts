/** The commands of snapshots, over folders that no keeper made. `sandbox-api/base-snapshots.vm.test.ts` makes real ones. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
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

describe('`snapshot list`', () => {
  test('a host without the folder has no snapshots', async () => {
    expect(await type('snapshot', 'list')).toEqual({ code: 0, stdout: 'no snapshots\n', stderr: '' });
    expect(JSON.parse((await type('snapshot', 'list', '--json')).stdout)).toEqual({
      dir,
      isOn: true,
      maxMib: 2_048,
      snapshots: [],
      omitted: 0,
    });
  });

  test('damaged snapshots and those of earlier boots are listed with the reason, without colours in a pipe', async () => {
    leaveThree();
    const { code, stdout, stderr } = await type('snapshot', 'list');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^a1a1a1a1a1a1 +base +\S+ \S+ +192 MiB, 1 vCPU +.*usable$/m);
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
