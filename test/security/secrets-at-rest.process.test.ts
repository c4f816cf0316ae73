/**
 * A secret of a deployment goes through every route, into a real database and to its deletion. Then the test searches
 * the files of the database, its log and all answers for the value.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readSecrets, readWebhookSecrets } from '../../app/secrets/read-secrets.ts';
import { createApi } from '../../server/api.ts';
import { API_LIMITS } from '../../server/limits.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../../store/open-access.ts';
import { openUploads } from '../../store/open-uploads.ts';
import { OWNER } from '../rig/access/owner.ts';
import { startTestPostgres } from '../rig/access/postgres-server.ts';
import { MemoryPlace, openMemoryStores } from '../rig/runs/memory-stores.ts';
import { createTestMachine } from '../rig/runs/test-machine.ts';
import { entriesBelow } from '../storm/leftovers.ts';

const LIMIT_MS = 300_000;

/** The forms in which a file, a log or an answer could have the value. */
function listForms(value: string): readonly string[] {
  const bytes = Buffer.from(value);
  return [value, bytes.toString('hex'), bytes.toString('base64').replace(/.=*$/, '')];
}

test(
  'no file and no log of the database, and no answer, has the value of a secret',
  { timeout: LIMIT_MS },
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'voidbox-secrets-at-rest-'));
    const stateDir = join(dir, 'state');
    for (const name of ['state', 'database']) mkdirSync(join(dir, name), { mode: 0o700 });
    const lines: string[] = [];
    const postgres = await startTestPostgres(join(dir, 'database'), (line) => lines.push(line));
    let isUp = true;
    const stop = async (): Promise<void> => {
      if (isUp) await postgres.stop();
      isUp = false;
    };
    onTestFinished(async () => {
      await stop();
      rmSync(dir, { recursive: true, force: true });
    });
    const target = await postgres.createDatabase();
    const database = target.place.split('/').at(-1)!;
    // The log has each statement with its parameters, as an operator who searches for a problem may want it.
    for (const setting of [
      "log_statement = 'all'",
      'log_parameter_max_length = -1',
      'log_parameter_max_length_on_error = -1',
    ])
      await postgres.run(target, `ALTER DATABASE ${database} SET ${setting}`);
    const store = await openAccess({
      target,
      migrationsDir: join(findPackageRoot(), ...MIGRATIONS_FOLDER),
      migrate: true,
      recover: () => Promise.resolve(),
      retryForMs: 0,
      warn: () => undefined,
    });
    const env = readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(dir, 'cache') });
    const answers: string[] = [];
    const api = createApi({
      machine: createTestMachine(openMemoryStores(new MemoryPlace()), { env }),
      uploads: openUploads(env),
      access: () => Promise.resolve(store),
      version: '1.2.3',
      limits: API_LIMITS,
      log: (line) => answers.push(line),
    });
    const send = async (method: string, path: string, body?: string): Promise<number> => {
      const headers = { 'content-type': 'application/json' };
      const sent = { method, headers, ...(body === undefined ? {} : { body }) };
      const response = await api.request(`/api/v1/secrets${path}`, sent, OWNER);
      answers.push(await response.text(), JSON.stringify([...response.headers]));
      return response.status;
    };

    const canaries = Array.from({ length: 5 }, () => `canary-${randomBytes(16).toString('hex')}`);
    const [first, second, third, removed, refused] = canaries as [string, string, string, string, string];
    const statuses = [
      await send('PUT', '/CONTROL_NAME', JSON.stringify({ value: first })),
      await send('POST', '/CONTROL_NAME/rotate', JSON.stringify({ value: second })),
      await send('PUT', '/CONTROL_NAME', JSON.stringify({ value: third, deployments: ['web'] })),
      await send('PUT', '/REMOVED', JSON.stringify({ value: removed })),
      await send('DELETE', '/REMOVED'),
      await send('PUT', '/REFUSED', JSON.stringify({ value: `${refused}\0` })),
      await send('PUT', '/REFUSED', `{"value":"${refused}" ${refused}`),
      await send('POST', '/rekey'),
      await send('GET', ''),
    ];
    expect(statuses).toEqual([200, 200, 200, 200, 200, 400, 400, 200, 200]);
    const place = {
      secrets: store.triggers.secrets,
      keyFile: { path: join(stateDir, 'secrets.key'), isOwn: true },
      nowMs: Date.now(),
    };
    expect((await readSecrets('web', ['CONTROL_NAME'], place)).values).toEqual({ CONTROL_NAME: third });
    expect(await readWebhookSecrets('api', 'CONTROL_NAME', place)).toEqual([second, first]);
    // A statement that fails is in the log with its row.
    await postgres
      .run(target, 'UPDATE voidbox.secrets SET key_id = NULL')
      .catch((error: Error) => answers.push(error.message, JSON.stringify(error)));
    await store.close();
    await stop();

    const forms = canaries.flatMap(listForms);
    const files = entriesBelow(dir).filter((path) => statSync(join(dir, path)).isFile());
    const read = (path: string): Buffer => readFileSync(join(dir, path));
    const hits = files.filter((path) => forms.some((form) => read(path).includes(form)));
    expect(hits).toEqual([]);
    expect(forms.filter((form) => [...lines, ...answers].some((text) => text.includes(form)))).toEqual([]);

    // The search reads what it must: the names are in the table, in the write-ahead log and in the log of the server.
    const named = files.filter((path) => read(path).includes('CONTROL_NAME'));
    expect(named.some((path) => path.includes('/base/'))).toBe(true);
    expect(named.some((path) => path.includes('/pg_wal/'))).toBe(true);
    expect(lines.filter((line) => line.includes('CONTROL_NAME')).length).toBeGreaterThan(0);
    // Only this file opens them, and only its user can read it.
    expect(statSync(join(stateDir, 'secrets.key')).mode & 0o777).toBe(0o600);
    expect(named).not.toContain('state/secrets.key');
  },
);
