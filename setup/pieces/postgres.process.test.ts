import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readEnvironment } from '../environment.ts';
import { resolveOptionalPieces } from '../resolve.ts';
import { makeContext } from './context.ts';
import type { NpmPackage } from './npm-package.ts';
import { POSTGRES, definePostgresPiece } from './postgres.ts';
import { findPiece, RUN_PIECES, STACK_PIECES } from './pieces.ts';
import type { SetupContext } from './piece.ts';

let folder: string;
let wanted: NpmPackage;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-postgres-piece-'));
  for (const name of ['bin', 'package/native/bin', 'package/native/lib'])
    mkdirSync(join(folder, name), { recursive: true });
  const native = join(folder, 'package', 'native');
  for (const program of ['initdb', 'postgres'])
    writeFileSync(join(native, 'bin', program), '#!/bin/sh\necho 18\n', { mode: 0o700 });
  writeFileSync(join(native, 'lib', 'libpq.so.5.18'), 'library', { mode: 0o600 });
  writeLinks([{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Makes the archive, and an npm that records its arguments and puts the archive into its working folder. */
function writeLinks(links: unknown): void {
  writeFileSync(join(folder, 'package', 'native', 'pg-symlinks.json'), JSON.stringify(links));
  const archive = join(folder, 'acme.tgz');
  execFileSync('tar', ['-czf', archive, '-C', folder, 'package']);
  const hash = createHash('sha512').update(readFileSync(archive)).digest('base64');
  wanted = { ...POSTGRES, package: '@acme/postgres@18.0.0', version: '18.0.0', integrity: `sha512-${hash}` };
  const script = `#!/bin/sh\necho "$@" >> ${join(folder, 'npm-calls')}\ncp ${archive} acme-postgres-18.0.0.tgz\n`;
  writeFileSync(join(folder, 'bin', 'npm'), script, { mode: 0o755 });
}

async function context(): Promise<SetupContext> {
  const path = `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`;
  return await makeContext(
    readEnvironment({ HOME: folder, PATH: path, VOIDBOX_CACHE_DIR: join(folder, 'cache') }),
    undefined,
  );
}

it('is fetched once, with its links, and every user may read it', async () => {
  const piece = definePostgresPiece(wanted);
  expect(await piece.find(await context())).toBeNull();
  const found = await piece.get!(await context());
  expect(await piece.get!(await context())).toEqual(found);
  expect(await piece.find(await context())).toEqual(found);
  expect(readFileSync(join(folder, 'npm-calls'), 'utf8')).toMatch(
    /^pack @acme\/postgres@18\.0\.0 .*--ignore-scripts.*\n$/,
  );
  expect(found).toEqual({
    path: expect.stringMatching(/\/postgres-[0-9a-f]{16}\/package\/native$/),
    version: '18.0.0',
    from: 'cache',
  });
  expect(readlinkSync(join(found.path, 'lib', 'libpq.so.5'))).toBe('libpq.so.5.18');
  expect(statSync(join(found.path, 'bin', 'postgres')).mode & 0o777).toBe(0o755);
  expect(statSync(join(found.path, 'lib', 'libpq.so.5.18')).mode & 0o777).toBe(0o644);
});

it('a package whose link leads out of it is rejected, and no part of it is kept', async () => {
  writeLinks([{ source: 'native/lib/libpq.so.5.18', target: '../../../escaped' }]);
  await expect(definePostgresPiece(wanted).get!(await context())).rejects.toThrow('does not accept');
  expect(existsSync(join(folder, 'escaped'))).toBe(false);
  expect(await definePostgresPiece(wanted).find(await context())).toBeNull();
});

it('a package with another hash is rejected', async () => {
  const other = definePostgresPiece({ ...wanted, integrity: POSTGRES.integrity });
  await expect(other.get!(await context())).rejects.toThrow(`but ${POSTGRES.integrity} is expected`);
});

it('a package without a program is rejected', async () => {
  rmSync(join(folder, 'package', 'native', 'bin', 'initdb'));
  writeLinks([]);
  await expect(definePostgresPiece(wanted).get!(await context())).rejects.toThrow('holds no program initdb');
});

it('no run and no stack gets it, and a missing one names the command that gets it', async () => {
  expect([...RUN_PIECES, ...STACK_PIECES]).not.toContain('postgres');
  expect(findPiece('postgres').name).toBe('postgres');
  const { env } = await context();
  await expect(resolveOptionalPieces(env, ['postgres'], { install: false })).rejects.toMatchObject({
    message: 'postgres is not set up on this machine yet.',
    remedy: 'voidbox up --with postgres',
  });
});
