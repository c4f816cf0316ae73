/**
 * The oldest and the following versions of PostgreSQL that your own server may have. `VOIDBOX_TEST_POSTGRES=1` fetches
 * them, and then each of them must be available.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeToken, testAccess } from '../../test/conformance/access.ts';
import {
  fetchPostgres,
  OTHER_MAJORS,
  startPostgresOf,
  TESTS_OTHER_MAJORS,
} from '../../test/rig/access/postgres-majors.ts';
import type { TestDatabases } from '../../test/rig/access/postgres-server.ts';
import { findData, locatePostgres } from '../../workers/embedded/postgres/postgres-files.ts';
import type { AccessStore } from '../access.ts';
import { type AccessTarget, MIGRATIONS_FOLDER, openAccess } from '../open-access.ts';

const FETCH_MS = 300_000;
const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);

async function open(target: AccessTarget, migrate = true): Promise<AccessStore> {
  return await openAccess({
    target,
    migrationsDir: MIGRATIONS,
    migrate,
    recover: () => Promise.resolve(),
    retryForMs: 0,
    warn: () => undefined,
  });
}

test('each supported version that the product does not bring has a row', () => {
  const source = readFileSync(join(import.meta.dirname, 'schema.ts'), 'utf8');
  const [oldest, newest] = ['OLDEST', 'NEWEST'].map((name) =>
    Number(new RegExp(`${name}_MAJOR = (\\d+)`).exec(source)![1]),
  );
  expect(OTHER_MAJORS.map(({ major }) => major)).toEqual(
    Array.from({ length: newest! - oldest! }, (_, at) => oldest! + at),
  );
});

const note = TESTS_OTHER_MAJORS ? '' : ' (not tested here: VOIDBOX_TEST_POSTGRES=1 fetches it)';

describe.each(OTHER_MAJORS)(`PostgreSQL $major${note}`, (wanted) => {
  describe.skipIf(!TESTS_OTHER_MAJORS)('as your own server', () => {
    let server: TestDatabases & { stop(): Promise<void> };
    let dir: string;

    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), 'voidbox-test-postgres-'));
      server = await startPostgresOf(await fetchPostgres(wanted), dir);
    }, FETCH_MS);
    afterAll(async () => {
      await server.stop();
      rmSync(dir, { recursive: true, force: true });
    });

    testAccess({ name: 'has the access store', open: async () => await open(await server.createDatabase()) });

    test('is of this version', async () => {
      const [row] = await server.run(await server.createDatabase(), 'SHOW server_version_num');
      expect(Math.floor(Number(row!['server_version_num']) / 10_000)).toBe(wanted.major);
    });

    test('is used without a migration once it has the schema, and a newer schema is refused', async () => {
      const target = await server.createDatabase();
      const first = await open(target);
      await first.tokens.create(makeToken('ci'));
      await first.close();
      const second = await open(target, false);
      expect(await second.tokens.list()).toMatchObject([{ name: 'ci' }]);
      await second.close();
      await server.run(target, `INSERT INTO voidbox.migrations (name, run_on) VALUES ('0999_later', now())`);
      await expect(open(target)).rejects.toMatchObject({
        code: 'api/access-unavailable',
        message: expect.stringContaining('a newer version of Voidbox has changed its schema (0999_later)'),
      });
    });

    test('has data that the supervisor refuses', () => {
      expect(() => findData(locatePostgres(dir))).toThrow(`has data of PostgreSQL "${wanted.major}"`);
    });
  });
});
