import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type AgentCli, agentCliPiece, CLAUDE, CODEX } from './agent-clis.ts';
import { cacheFolderPath } from '../cache/cache.ts';
import { makeContext } from './context.ts';
import { readEnvironment } from '../environment.ts';
import { reportGrowth } from '../long-work.ts';
import type { SetupContext } from './piece.ts';
import { roomForBytes } from '../machine/preflight.ts';
import { runProgram } from './run-program.ts';
import { inspectHost, resolveOptionalPieces } from '../resolve.ts';

/** The piece's own folder in the cache. */
const CODEX_FOLDER = (cacheDir: string): string =>
  cacheFolderPath(agentCliPiece(CODEX).folder!({ env: { cacheDir } } as unknown as SetupContext));

/** A process that has ended and was not reaped has no command line. */
function isRunning(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}

let folder: string;
let lines: string[];
let cli: AgentCli;

/**
 * Installs an npm that only does what set-up calls: it puts the archive into its working folder, and records its
 * arguments.
 */
function putNpm(script: string): void {
  writeFileSync(join(folder, 'bin', 'npm'), `#!/bin/sh\necho "$@" >> ${join(folder, 'npm-calls')}\n${script}\n`, {
    mode: 0o755,
  });
}

async function context(path = `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`): Promise<SetupContext> {
  const env = readEnvironment({ HOME: folder, PATH: path, VOIDBOX_CACHE_DIR: join(folder, 'cache') });
  return await makeContext(env, (line) => lines.push(line));
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-agent-cli-'));
  lines = [];
  mkdirSync(join(folder, 'bin'));
  mkdirSync(join(folder, 'package', 'vendor'), { recursive: true });
  writeFileSync(join(folder, 'package', 'vendor', 'tool'), '#!/bin/sh\necho 1.2.3\n', { mode: 0o700 });
  writeFileSync(join(folder, 'package', 'package.json'), '{}', { mode: 0o600 });
  // The modes in a package may not let a VMM of another user read it.
  chmodSync(join(folder, 'package', 'vendor'), 0o700);
  execFileSync('tar', ['-czf', join(folder, 'tool.tgz'), '-C', folder, 'package']);
  const integrity = `sha512-${createHash('sha512')
    .update(readFileSync(join(folder, 'tool.tgz')))
    .digest('base64')}`;
  cli = {
    name: 'codex',
    package: '@acme/tool@1.2.3',
    version: '1.2.3',
    integrity,
    program: 'vendor/tool',
    downloadMb: 1,
    roomMib: 1,
  };
  putNpm(`cp ${join(folder, 'tool.tgz')} acme-tool-1.2.3.tgz`);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('is fetched once, and every user may read it', async () => {
  const piece = agentCliPiece(cli);
  expect(await piece.find(await context())).toBeNull();
  const found = await piece.get!(await context());
  expect(await piece.find(await context())).toEqual(found);
  expect(await piece.get!(await context())).toEqual(found);
  expect(readFileSync(join(folder, 'npm-calls'), 'utf8')).toMatch(
    /^pack @acme\/tool@1\.2\.3 --loglevel=error --ignore-scripts --no-update-notifier --cache \S+\n$/,
  );
  expect(readdirSync(found.path).sort()).toEqual(['bin', 'contents.json', 'package']);
  expect(execFileSync(join(found.path, 'bin', 'codex'), { encoding: 'utf8' })).toBe('1.2.3\n');
  // A link that leads out of the folder would lead nowhere in a VM.
  expect(readlinkSync(join(found.path, 'bin', 'codex'))).toBe('../package/vendor/tool');
  expect(realpathSync(join(found.path, 'bin', 'codex')).startsWith(`${realpathSync(found.path)}/`)).toBe(true);
  for (const [name, mode] of [
    ['', 0o755],
    ['package/vendor', 0o755],
    ['package/vendor/tool', 0o755],
    ['package/package.json', 0o644],
  ] as const)
    expect(statSync(join(found.path, name)).mode & 0o777, name).toBe(mode);
  expect(lines[0]).toBe('downloading the codex command line 1.2.3 (npm, about 1 MB)');
});

it('a package other than the pinned one is rejected, and no part of it is kept', async () => {
  const other = { ...cli, integrity: CODEX.integrity };
  const refused = agentCliPiece(other).get!(await context());
  await expect(refused).rejects.toThrow(
    `The file that npm downloaded for @acme/tool@1.2.3 is not that package: its hash is ${cli.integrity}, but ${CODEX.integrity} is expected.`,
  );
  expect(await agentCliPiece(other).find(await context())).toBeNull();
  expect(readdirSync(join(folder, 'cache', 'tmp'))).toEqual([]);
});

it('the error contains the message of a failed npm', async () => {
  putNpm('echo E404 no such package >&2; exit 1');
  const failed = agentCliPiece(cli).get!(await context());
  await expect(failed).rejects.toMatchObject({
    message: expect.stringContaining('npm cannot download @acme/tool@1.2.3:\nE404 no such package'),
    remedy: expect.stringContaining('npm config list'),
  });
});

it("the error names a registry that cannot be reached, without npm's stack trace", async () => {
  const npm = execFileSync('which', ['npm'], { encoding: 'utf8' }).trim();
  putNpm(`npm_config_registry=http://127.0.0.1:1 npm_config_fetch_retries=0 exec ${npm} "$@"`);
  const error = await agentCliPiece(cli).get!(await context()).then(
    () => 'no error',
    (reason: unknown) => (reason as Error).message,
  );
  expect(error).toMatch(/^npm cannot download @acme\/tool@1\.2\.3:\n[\s\S]*ECONNREFUSED 127\.0\.0\.1:1/);
  expect(error).not.toContain('minipass-fetch');
});

it.each([
  ['on the disk', 'while :; do head -c 300000 /dev/zero >> part; sleep 0.02; done'],
  ['on the disk', '(while :; do head -c 300000 /dev/zero >> part; sleep 0.02; done) & wait'],
  [
    'of memory',
    `exec "${process.execPath}" -e 'const held = []; setInterval(() => held.push(Buffer.alloc(4e7, 1)), 20)'`,
  ],
])('a registry that sends without end uses no more %s than its package may use', async (where, script) => {
  putNpm(script);
  const error = await agentCliPiece(cli).get!(await context()).then(
    () => 'no error',
    (reason: unknown) => (reason as Error).message,
  );
  expect(error).toMatch(
    new RegExp(
      `npm was ended: it has taken \\d+ MiB ${where} for a package of about 1 MB, and ${where === 'of memory' ? 513 : 1} MiB are the most$`,
    ),
  );
  expect(readdirSync(join(folder, 'cache', 'tmp'))).toEqual([]);
  // No process that npm has started still writes.
  await sleep(200);
  expect(readdirSync(join(folder, 'cache', 'tmp'))).toEqual([]);
});

it('a program that takes too long is ended with all its children, and the result names the limit', async () => {
  const { env } = await context();
  const began = Date.now();
  const result = await runProgram(env, 'sh', ['-c', 'sleep 30 & echo $!; echo begun >&2; wait'], { timeoutMs: 3_000 });
  expect(Date.now() - began, 'it does not wait for `sleep`').toBeLessThan(30_000);
  expect(result).toMatchObject({ exitCode: null, stderr: 'begun\nsh was ended: it took longer than 3 s' });
  await expect.poll(() => isRunning(result.stdout.trim())).toBe(false);
});

it('a program that is ended does not run its next command, and starts no more children', async () => {
  const { env } = await context();
  // The first child of two hundred ends first, and the shell waits for that one only.
  const script =
    'sleep 30 & first=$!; n=0; while [ $n -lt 200 ]; do sleep 30 & n=$((n + 1)); done; echo begun; wait $first; echo more >> next; exit 0';
  let begun = false;
  const result = await runProgram(env, 'sh', ['-c', script], {
    cwd: folder,
    onLine: () => (begun = true),
    reasonToEnd: async () => (begun ? 'it has begun' : null),
  });
  expect(result).toMatchObject({ exitCode: null, stderr: expect.stringContaining('sh was ended: it has begun') });
  expect(existsSync(join(folder, 'next'))).toBe(false);
});

it('a program that ends before its child does is no success if its child holds the output open until the limit', async () => {
  const { env } = await context();
  const result = await runProgram(env, 'sh', ['-c', 'sleep 30 & echo $!'], { timeoutMs: 500 });
  process.kill(Number(result.stdout), 'SIGKILL');
  expect(result).toMatchObject({ exitCode: null, stderr: expect.stringContaining('it took longer than 0.5 s') });
});

it('a truncated or missing program is reported if set-up may not fetch it, and otherwise fetched again', async () => {
  const piece = agentCliPiece(cli);
  const { path } = await piece.get!(await context());
  truncateSync(join(path, 'package', 'vendor', 'tool'), 4);
  expect(await piece.find(await context())).toBeNull();
  expect(await piece.get!(await context())).toMatchObject({ path });
  expect(execFileSync(join(path, 'bin', 'codex'), { encoding: 'utf8' })).toBe('1.2.3\n');
});

it('the error names a damaged command line and its damage', async () => {
  const { env } = await context();
  const inCache = CODEX_FOLDER(env.cacheDir);
  mkdirSync(join(inCache, 'bin'), { recursive: true });
  mkdirSync(join(inCache, 'package', CODEX.program), { recursive: true });
  writeFileSync(join(inCache, 'contents.json'), '{"bin/codex":"../package/codex"}');
  await expect(resolveOptionalPieces(env, ['codex'], { install: false })).rejects.toMatchObject({
    message: `codex in ${inCache} is damaged: its link bin/codex is missing.`,
    remedy: 'voidbox up --with codex',
  });
  const { pieces } = await inspectHost(env);
  expect(pieces.find(({ name }) => name === 'codex')?.problem).toContain('its link bin/codex is missing');
  putNpm('exit 1');
  const said: string[] = [];
  const small = resolveOptionalPieces(env, ['codex'], { install: true, onProgress: (line) => said.push(line) });
  await expect(small).rejects.toThrow('npm cannot download @openai/codex');
  expect(said).toContain('codex in the cache is damaged, its link bin/codex is missing: set-up gets it again');
});

it('a package without the program is rejected', async () => {
  const moved = { ...cli, program: 'vendor/other' };
  await expect(agentCliPiece(moved).get!(await context())).rejects.toThrow('holds no program vendor/other');
});

it('set-up without npm reports it before it starts', async () => {
  const blocker = await agentCliPiece(cli).blocker!(await context(join(folder, 'empty')));
  expect(blocker?.message).toBe('There is no npm on PATH, which fetches the codex command line.');
});

it('a run without the command line gets the command to install it, and the doctor does not require it', async () => {
  const { env } = await context();
  await expect(resolveOptionalPieces(env, ['claude'], { install: false })).rejects.toMatchObject({
    message: 'claude is not set up on this machine yet.',
    remedy: 'voidbox up --with claude',
  });
  expect(await resolveOptionalPieces(env, [], { install: false })).toEqual(new Map());
  const { pieces, cache } = await inspectHost(env);
  const optional = pieces.filter(({ isOptional }) => isOptional);
  expect(optional.map(({ name, path }) => ({ name, path }))).toEqual([
    { name: 'binding', path: null },
    { name: 'claude', path: null },
    { name: 'codex', path: null },
    { name: 'dev', path: null },
    { name: 'postgres', path: null },
    { name: 'vmm', path: null },
  ]);
  const needed = pieces.filter((piece) => !piece.isOptional && piece.problem !== null).map(({ name }) => name);
  expect(needed).toContain('kernel');
  expect(cache.neededBytes, 'room is asked for what every run needs').toBe(roomForBytes(needed));
  expect(existsSync(join(folder, 'npm-calls'))).toBe(false);
});

it('both packages are pinned by version and hash', () => {
  for (const { package: name, version, integrity } of [CLAUDE, CODEX]) {
    expect(name).toContain(`@${version}`);
    expect(integrity).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
  }
});

it('a download reports its progress', async () => {
  writeFileSync(join(folder, 'part'), Buffer.alloc(1_400_000));
  let end!: (value: string) => void;
  /** Records the first line, and ends the work, so that even a slow measurement of the folder comes first. */
  const tell = (line: string): void => {
    lines.push(line);
    end('done');
  };
  const work = new Promise<string>((resolve) => (end = resolve));
  const where = { folder, expectedMb: 3 };
  expect(await reportGrowth(tell, 'downloading x', where, work, 50)).toBe('done');
  expect(lines[0]).toBe('still downloading x: 1 of about 3 MB');
  writeFileSync(join(folder, 'rest'), Buffer.alloc(4_000_000));
  lines = [];
  await reportGrowth(tell, 'downloading x', where, new Promise<string>((resolve) => (end = resolve)), 50);
  expect(lines[0]).toBe('still downloading x: 3 of about 3 MB');
});
