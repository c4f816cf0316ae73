/** `voidbox service migrate` with a real server. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listMigrations } from '../rig/access/list-migrations.ts';
import { startTestPostgres, type TestPostgres } from '../rig/access/postgres-server.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

let server: TestPostgres;
beforeAll(async () => {
  server = await startTestPostgres();
}, 300_000);
afterAll(async () => await server.stop());

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function migrate(address: string, ...args: readonly string[]): Promise<Ended> {
  const env = { ...process.env, DATABASE_URL: address, DATABASE_URL_FILE: '' };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [BIN, 'service', 'migrate', ...args],
      { env, timeout: 60_000 },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

test('the schema is made once, and a superuser is a warning', { timeout: 120_000 }, async () => {
  // The address names a descriptor of this process.
  const address = (await server.createDatabase()).place.replace('self', String(process.pid));
  const first = await migrate(address);
  expect(first).toMatchObject({ code: 0, stdout: `changed the schema: ${listMigrations().join(', ')}\n` });
  expect(first.stderr).toContain('is a superuser');
  expect(await migrate(address)).toMatchObject({ code: 0, stdout: 'the schema is up to date\n' });
  expect(await migrate(address, '--json')).toMatchObject({ code: 0, stdout: '{"applied":[]}\n' });
});

test('without an address, or without a server at it, the error names the reason', async () => {
  const none = await migrate('');
  expect(none).toMatchObject({ code: 2, stdout: '' });
  expect(none.stderr).toContain('neither DATABASE_URL nor DATABASE_URL_FILE is set');
  const gone = await migrate('postgres://u:hunter2@127.0.0.1:1/x');
  expect(gone).toMatchObject({ code: 3, stdout: '' });
  expect(gone.stderr).toContain('api/access-unavailable');
  expect(gone.stderr).not.toContain('hunter2');
});
