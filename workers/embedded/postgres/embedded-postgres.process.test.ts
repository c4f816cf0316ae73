/** The embedded database as processes. Root runs them in a jail, another user directly; root tests both. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { DatabaseState } from '../../../client/embedded/control.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import { type DatabasePieces, resolveDatabasePieces, resolveStackPieces } from '../../../setup/resolve.ts';

const IS_ROOT = process.getuid?.() === 0;
/** The user id of `nobody` on Linux. */
const OTHER_UID = 65_534;
const UP = { timeout: 60_000 };

type State = DatabaseState & { readonly pid: number | null };

interface Started {
  /** The last state that it printed. */
  state(): State | null;
  readonly states: readonly State[];
  readonly child: ChildProcess;
  log(): string;
  stop(): Promise<void>;
}

/** The programs where every user can read them. */
let folder: string;
let keeper: string;
let pieces: DatabasePieces;
let program: string;
let stateDir: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-embedded-postgres-'));
  execFileSync('chmod', ['755', folder]);
  const env = readEnvironment();
  const found = await resolveDatabasePieces(env, { install: true });
  keeper = join(folder, 'voidbox-vm');
  cpSync((await resolveStackPieces(env, { install: true })).keeper, keeper);
  pieces = { ...found, postgres: join(folder, 'postgres') };
  cpSync(found.postgres, pieces.postgres, { recursive: true, verbatimSymlinks: true });
  program = join(folder, 'program.mjs');
  const input = fileURLToPath(new URL('../../../test/rig/access/postgres-process.ts', import.meta.url));
  const bundle = await rolldown({ input, platform: 'node', resolve: { extensionAlias: { '.js': ['.ts', '.js'] } } });
  await bundle.write({ file: program, format: 'esm' });
  await bundle.close();
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeEach(() => {
  const place = mkdtempSync(join(tmpdir(), 'voidbox-postgres-'));
  stateDir = join(place, 'state');
  mkdirSync(stateDir, { mode: 0o700 });
  execFileSync('chmod', ['711', place]);
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
});

/** Data of earlier tests, by the user that owns it, because `initdb` takes seconds. */
const made = new Map<number | null, string>();

function keepMadeData(uid: number | null): void {
  const kept = join(folder, `made-${uid ?? 'own'}`);
  execFileSync('cp', ['-a', join(stateDir, 'postgres'), kept]);
  made.set(uid, kept);
}

async function useMadeData(uid: number | null, dir = stateDir): Promise<void> {
  if (!made.has(uid)) {
    const first = start(uid);
    await untilUp(first);
    await first.stop();
    keepMadeData(uid);
    rmSync(join(stateDir, 'postgres'), { recursive: true });
  }
  execFileSync('cp', ['-a', made.get(uid)!, join(dir, 'postgres')]);
}

function start(uid: number | null = null, variables: NodeJS.ProcessEnv = {}, dir = stateDir): Started {
  const given = JSON.stringify({ stateDir: dir, keeper, pieces: uid === null ? pieces : { ...pieces, bwrap: null } });
  const user = uid === null ? {} : { uid, gid: uid };
  const child = spawn(process.execPath, [program, given], {
    cwd: '/',
    env: { PATH: process.env['PATH'], ...variables },
    stdio: ['pipe', 'pipe', 'pipe'],
    ...user,
  });
  const states: State[] = [];
  let log = '';
  createInterface({ input: child.stdout }).on('line', (line) => states.push(JSON.parse(line) as State));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    child.stdin.end();
    await ended;
  };
  onTestFinished(async () => {
    const limit = setTimeout(() => child.kill('SIGKILL'), 20_000);
    await stop();
    clearTimeout(limit);
  });
  return { state: () => states.at(-1) ?? null, states, child, log: () => log, stop };
}

async function untilUp(started: Started): Promise<string> {
  await expect
    .poll(() => started.state(), { ...UP, message: started.log() })
    .toMatchObject({ phase: 'up', reason: null });
  return started.state()!.socketDir;
}

async function query(socketDir: string, text: string): Promise<readonly unknown[]> {
  const fd = openSync(socketDir, constants.O_RDONLY | constants.O_DIRECTORY);
  const client = new pg.Client({ host: `/proc/self/fd/${fd}`, user: 'voidbox', database: 'postgres' });
  try {
    await client.connect();
    return (await client.query<Record<string, unknown>>(text)).rows.map((row) => Object.values(row)[0]);
  } finally {
    await client.end().catch(() => undefined);
    closeSync(fd);
  }
}

function readPostmaster(): number {
  return Number(readFileSync(join(stateDir, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

describe.each(IS_ROOT ? (['this user', 'another user'] as const) : (['this user'] as const))('as %s', (who) => {
  const uid = who === 'this user' ? null : OTHER_UID;

  beforeEach(() => {
    if (uid !== null) chownSync(stateDir, uid, uid);
  });

  test(
    'it makes its data, answers on a private socket only, and ends without a trace',
    { timeout: 120_000 },
    async () => {
      const one = start(uid, { PGDATA: '/nowhere', PGPORT: '1', PGOPTIONS: '-c work_mem=1MB' });
      const socketDir = await untilUp(one);
      expect(socketDir).toBe(join(stateDir, 'postgres', 'socket'));
      expect(statSync(socketDir).mode & 0o777).toBe(0o700);
      expect(statSync(join(socketDir, '.s.PGSQL.5432')).mode & 0o777).toBe(0o600);
      expect(statSync(join(stateDir, 'postgres')).mode & 0o777).toBe(0o700);
      expect(await query(socketDir, 'show listen_addresses')).toEqual(['']);
      expect(await query(socketDir, `select split_part(version(), ' ', 2)`)).toEqual(['18.4']);
      const pid = readPostmaster();
      await one.stop();
      expect(isAlive(pid)).toBe(false);
      expect(existsSync(join(stateDir, 'postgres', 'data', 'postmaster.pid'))).toBe(false);
      expect(one.log()).toContain('received fast shutdown request');
      keepMadeData(uid);
    },
  );

  test('after SIGKILL it starts again, with its data', { timeout: 120_000 }, async () => {
    await useMadeData(uid);
    const one = start(uid);
    const socketDir = await untilUp(one);
    await query(socketDir, 'create table kept as select 7 as n');
    const first = readPostmaster();
    process.kill(first, 'SIGKILL');
    await expect
      .poll(() => (existsSync(join(stateDir, 'postgres', 'data', 'postmaster.pid')) ? readPostmaster() : first), UP)
      .not.toBe(first);
    await untilUp(one);
    await expect.poll(() => query(socketDir, 'select n from kept').catch(() => null), UP).toEqual([7]);
  });

  test('it ends with the process that keeps it, and the next one finds its data', { timeout: 120_000 }, async () => {
    await useMadeData(uid);
    const one = start(uid);
    const socketDir = await untilUp(one);
    await query(socketDir, 'create table kept as select 8 as n');
    const pid = readPostmaster();
    one.child.kill('SIGKILL');
    await expect.poll(() => isAlive(pid), UP).toBe(false);
    const two = start(uid);
    expect(await query(await untilUp(two), 'select n from kept')).toEqual([8]);
  });

  test(
    'a pid of another living process in the file of the last server does not block it',
    { timeout: 120_000 },
    async () => {
      await useMadeData(uid);
      const one = start(uid);
      const socketDir = await untilUp(one);
      const file = join(stateDir, 'postgres', 'data', 'postmaster.pid');
      const text = readFileSync(file, 'utf8');
      await query(socketDir, 'checkpoint');
      await one.stop();
      // A process of the same user, which PostgreSQL may not signal in vain.
      const other = spawn('sleep', ['60'], { stdio: 'ignore', ...(uid === null ? {} : { uid, gid: uid }) });
      onTestFinished(() => void other.kill('SIGKILL'));
      writeFileSync(file, text.replace(/^\d+/, String(other.pid)), { mode: 0o600 });
      if (uid !== null) chownSync(file, uid, uid);
      const two = start(uid);
      await untilUp(two);
      expect(two.log()).not.toContain('FATAL');
    },
  );

  test('a state folder with a path of 300 bytes works', { timeout: 120_000 }, async () => {
    const dir = join(stateDir, 'a'.repeat(150), 'b'.repeat(150));
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (uid !== null) for (const path of [dir, join(dir, '..')]) chownSync(path, uid, uid);
    await useMadeData(uid, dir);
    const socketDir = await untilUp(start(uid, {}, dir));
    expect(socketDir.length).toBeGreaterThan(300);
    expect(await query(socketDir, 'select 1 as n')).toEqual([1]);
  });
});

test(
  'another user cannot connect to the database or read its files, also in a folder that all may enter',
  { timeout: 120_000 },
  async () => {
    if (!IS_ROOT) throw new Error('this test becomes another user, which root alone may: run it as root, as CI does');
    await useMadeData(null);
    for (const path of [stateDir, join(stateDir, 'postgres'), join(stateDir, 'postgres', 'socket')])
      chmodSync(path, 0o755);
    const socketDir = await untilUp(start());
    const attempt = `
    const fs = require('node:fs'), net = require('node:net');
    const [socket, file] = process.argv.slice(1);
    const gains = [];
    try { fs.readFileSync(file); gains.push('read'); } catch {}
    const connection = net.connect({ path: socket }, () => { gains.push('connected'); connection.destroy(); });
    connection.on('error', () => undefined).on('close', () => process.stdout.write(JSON.stringify(gains)));`;
    const targets = [join(socketDir, '.s.PGSQL.5432'), join(stateDir, 'postgres', 'data', 'PG_VERSION')];
    const tryAs = (uid: number): string =>
      execFileSync(process.execPath, ['-e', attempt, ...targets], {
        uid,
        gid: uid,
        cwd: '/',
        env: {},
        encoding: 'utf8',
        timeout: 30_000,
      });
    expect(tryAs(OTHER_UID)).toBe('[]');
    expect(tryAs(0), 'the attempts of the owner succeed').toBe('["read","connected"]');
  },
);

test(
  'the database of root sees no file of root besides its programs and its own folders',
  { timeout: 120_000 },
  async () => {
    if (!IS_ROOT) throw new Error('this test runs the database in its jail: run it as root, as CI does');
    await useMadeData(null);
    writeFileSync(join(stateDir, 'secret'), 'of root');
    const socketDir = await untilUp(start());
    for (const path of [join(stateDir, 'secret'), '/etc/shadow', '/proc/self/environ'])
      await expect(query(socketDir, `select pg_read_file('${path}')`), path).rejects.toThrow('No such file');
    await expect(query(socketDir, `copy (select 1) to '/usr/planted'`)).rejects.toThrow('Read-only file system');
    expect(await query(socketDir, `select rtrim(pg_read_file('PG_VERSION'), E'\\n')`)).toEqual(['18']);
  },
);

test('a server that still runs keeps its data for itself', { timeout: 120_000 }, async () => {
  await useMadeData(null);
  const one = start();
  await untilUp(one);
  const two = start();
  await expect
    .poll(() => two.state(), UP)
    .toMatchObject({ phase: 'failed', reason: expect.stringContaining('still in use') });
  await two.stop();
  expect(one.state()).toMatchObject({ phase: 'up' });
});

test(
  'data of another major version is refused with the reason, until it has this version',
  { timeout: 120_000 },
  async () => {
    const data = join(stateDir, 'postgres', 'data');
    await useMadeData(null);
    mkdirSync(data, { recursive: true, mode: 0o700 });
    writeFileSync(join(data, 'PG_VERSION'), '17\n');
    const before = readdirSync(data);
    const one = start();
    await expect
      .poll(() => one.state(), UP)
      .toMatchObject({
        phase: 'failed',
        isDiskFull: false,
        reason: expect.stringContaining('has data of PostgreSQL "17"'),
      });
    expect(readdirSync(data)).toEqual(before);
    writeFileSync(join(data, 'PG_VERSION'), '18\n');
    await untilUp(one);
  },
);

test('data that initdb did not finish is made again', { timeout: 120_000 }, async () => {
  const unfinished = join(stateDir, 'postgres', 'data.unfinished');
  mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  writeFileSync(join(unfinished, 'PG_VERSION'), '18\n');
  const one = start();
  await untilUp(one);
  expect(existsSync(unfinished)).toBe(false);
});

test('a stop in the middle of initdb leaves no process', { timeout: 120_000 }, async () => {
  const one = start();
  await expect.poll(() => existsSync(join(stateDir, 'postgres', 'data.unfinished')), UP).toBe(true);
  await one.stop();
  const isOurs = (pid: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(stateDir);
    } catch {
      return false;
    }
  };
  await expect
    .poll(
      () =>
        readdirSync('/proc')
          .filter((name) => /^\d+$/.test(name))
          .filter(isOurs),
      UP,
    )
    .toEqual([]);
});

test('a missing piece is the reason, with its remedy', async () => {
  rmSync(join(stateDir, 'postgres'), { recursive: true, force: true });
  const gone = { ...pieces, postgres: join(folder, 'none') };
  const before = pieces;
  pieces = gone;
  onTestFinished(() => void (pieces = before));
  const one = start();
  await expect
    .poll(() => one.state(), UP)
    .toMatchObject({ phase: 'failed', reason: expect.stringMatching(/initdb ended with/) });
});

describe('on a full disk', () => {
  let disk: string;

  beforeEach(() => {
    if (!IS_ROOT) throw new Error('this test mounts a file system, which root alone may: run it as root, as CI does');
    disk = mkdtempSync(join(tmpdir(), 'voidbox-postgres-disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0700', 'tmpfs', disk]);
    stateDir = join(disk, 'state');
    mkdirSync(stateDir, { mode: 0o700 });
    onTestFinished(() => {
      execFileSync('umount', ['--lazy', disk]);
      rmSync(disk, { recursive: true, force: true });
    });
  });

  const fillDisk = (): void => {
    try {
      execFileSync('dd', ['if=/dev/zero', `of=${join(disk, 'ballast')}`, 'bs=64k'], { stdio: 'ignore' });
    } catch {
      // It ends with an error when the disk is full.
    }
  };

  test('the reason is the full disk, and with room it has all that was committed', { timeout: 180_000 }, async () => {
    await useMadeData(null);
    const one = start();
    const socketDir = await untilUp(one);
    await query(socketDir, 'create table kept as select 9 as n');
    fillDisk();
    // It writes to the log of the database only, and PostgreSQL panics if the log has no room.
    const fill = `select length(pg_logical_emit_message(true, 'fill', repeat('x', 900000))::text) from generate_series(1, 100)`;
    await expect(query(socketDir, fill)).rejects.toThrow(/terminated|closed|No space left on device/);
    const full = { isDiskFull: true, phase: 'failed', reason: expect.stringContaining('No space left on device') };
    await expect.poll(() => one.states, UP).toContainEqual(expect.objectContaining(full));
    rmSync(join(disk, 'ballast'));
    await untilUp(one);
    await expect.poll(() => query(socketDir, 'select n from kept').catch(() => null), UP).toEqual([9]);
    await query(socketDir, `insert into kept values (10)`);
  });

  test(
    'without room for the data, the reason is the full disk, and nothing of it stays',
    { timeout: 180_000 },
    async () => {
      fillDisk();
      execFileSync('truncate', ['--size=-8M', join(disk, 'ballast')]);
      const one = start();
      await expect.poll(() => one.state(), UP).toMatchObject({ phase: 'failed', isDiskFull: true });
      expect(existsSync(join(stateDir, 'postgres', 'data.unfinished'))).toBe(false);
      rmSync(join(disk, 'ballast'));
      await untilUp(one);
    },
  );
});
