/** Tokens and the audit log as the service opens them: with a real stack, and with a server of one's own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { listMigrations } from '../../test/rig/access/list-migrations.ts';
import { ensureStack, stopStack } from '../../client/embedded/stack.ts';
import { type Environment, readEnvironment } from '../../setup/environment.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { makeEntry, makeToken } from '../../test/conformance/access.ts';
import { startTestPostgres } from '../../test/rig/access/postgres-server.ts';
import { migrateOwnDatabase } from './migrate.ts';
import { openAccessStore, type OpenAccessStoreOptions } from './open-access-store.ts';

const QUIET: OpenAccessStoreOptions = { install: true, warn: () => undefined };
let env: Environment;

beforeEach(async () => {
  const real = readEnvironment();
  await resolveStackPieces(real, { install: true });
  // So deep that the path of its socket has more bytes than an address can have.
  const deep = join(mkdtempSync(join(tmpdir(), 'voidbox-access-')), 'd'.repeat(120));
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: deep, DATABASE_URL: '', DATABASE_URL_FILE: '' });
}, 300_000);

afterEach(async () => {
  await stopStack(env);
  rmSync(join(env.stateDir, '..'), { recursive: true, force: true });
});

function readPostmaster(): number {
  return Number(readFileSync(join(env.stateDir, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

test(
  'the stack starts its database for the first token, and a crash of it loses none',
  { timeout: 300_000 },
  async () => {
    await expect(openAccessStore(env, QUIET)).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining('the embedded stack does not run'),
    });
    await ensureStack(env);
    const [store, other] = await Promise.all([openAccessStore(env, QUIET), openAccessStore(env, QUIET)]);
    onTestFinished(async () => {
      await store.close();
      await other.close();
    });
    const token = makeToken('ci');
    expect(await store.tokens.create(token)).toBe(true);
    expect(await other.tokens.create(makeToken('ci'))).toBe(false);
    await store.audit.add(makeEntry());
    const killed = readPostmaster();
    process.kill(killed, 'SIGKILL');
    expect(await store.tokens.find(token.hash)).toMatchObject({ name: 'ci' });
    expect(await other.audit.list({ limit: 5 })).toMatchObject([makeEntry()]);
    // Processes of the server answer until they notice that it has ended.
    await expect.poll(readPostmaster, { timeout: 60_000 }).not.toBe(killed);
    await stopStack(env);
    await expect(store.tokens.list()).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining('the embedded stack does not run'),
    });
    await ensureStack(env);
    expect(await store.tokens.list()).toMatchObject([{ name: 'ci' }]);
  },
);

test(
  'a server of your own is used by its address or a file with it, and is migrated by its command only',
  { timeout: 300_000 },
  async () => {
    const server = await startTestPostgres();
    onTestFinished(() => server.stop());
    const { place } = await server.createDatabase();
    const file = join(env.stateDir, '..', 'address');
    writeFileSync(file, `${place}\n`, { mode: 0o600 });
    const named = readEnvironment({ ...env.variables, DATABASE_URL: place });
    const filed = readEnvironment({
      ...env.variables,
      DATABASE_URL: 'postgres://127.0.0.1:1/other',
      DATABASE_URL_FILE: file,
    });
    await expect(openAccessStore(named, QUIET)).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining('voidbox service migrate'),
    });
    expect(await migrateOwnDatabase(filed, () => undefined)).toEqual(listMigrations());
    expect(await migrateOwnDatabase(named, () => undefined)).toEqual([]);
    for (const one of [named, filed]) {
      const store = await openAccessStore(one, QUIET);
      await store.audit.add(makeEntry());
      await store.close();
    }
    expect(await server.run({ kind: 'url', place }, 'SELECT count(*)::int AS n FROM voidbox.audit')).toEqual([
      { n: 2 },
    ]);
  },
);

test('without a server of your own there is nothing to migrate', async () => {
  await expect(migrateOwnDatabase(env, () => undefined)).rejects.toMatchObject({
    code: 'cli/usage',
    message: 'neither DATABASE_URL nor DATABASE_URL_FILE is set',
  });
});
