/** The promises of every store of tokens and of the audit log. A store's own test file calls these tests. */
import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { AccessStore, AuditEntry, NewToken } from '../../store/access.ts';

export interface AccessSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;

/** Texts that a store must return as they are. */
const UNUSUAL_TEXTS = [
  'ü😀Ａ',
  `'; DROP TABLE tokens; --`,
  '{a,"b"}',
  'NULL',
  '',
  ' ',
  'a\\b\\0\\ud800',
  'a\0b',
  '\uD800',
  '\uDC00\uD800',
  '\u202E\uFEFF\r\n',
  '%$1',
];

export function makeToken(name: string, changes: Partial<NewToken> = {}): NewToken {
  return {
    name,
    hash: new Uint8Array(randomBytes(32)),
    scopes: ['read'],
    runs: [],
    groups: [],
    allowGit: [],
    createdAtMs: NOW_MS,
    expiresAtMs: NOW_MS + 1_000,
    ...changes,
  };
}

export function makeEntry(changes: Partial<AuditEntry> = {}): AuditEntry {
  return {
    atMs: NOW_MS,
    token: 'ci',
    address: '192.0.2.7',
    method: 'POST',
    route: '/api/v1/runs',
    runId: 'run-1',
    status: 202,
    code: null,
    ...changes,
  };
}

export function testAccess({ name, open }: AccessSubject): void {
  describe(name, () => {
    let store: AccessStore;

    beforeEach(async () => {
      const opened = await open();
      store = opened;
      onTestFinished(() => opened.close());
    });

    testTokens(() => store);
    testAudit(() => store);
  });
}

function testTokens(store: () => AccessStore): void {
  test('a token is found by its hash, with all that it was created with', async () => {
    const token = makeToken('ci', {
      scopes: ['run', 'approve'],
      runs: ['nightly-*', 'x'],
      groups: ['ops'],
      allowGit: ['example.com/a'],
    });
    expect(await store().tokens.create(token)).toBe(true);
    expect(await store().tokens.find(token.hash)).toEqual({ ...token, lastUsedAtMs: null, revokedAtMs: null });
    expect(await store().tokens.find(new Uint8Array(randomBytes(32)))).toBeNull();
  });

  test('a token without an end stays so', async () => {
    const token = makeToken('forever', { expiresAtMs: null });
    await store().tokens.create(token);
    expect(await store().tokens.find(token.hash)).toMatchObject({ expiresAtMs: null });
  });

  test('a name is used once, also after a revocation, and the first token stays as it is', async () => {
    const first = makeToken('ci', { scopes: ['admin'] });
    expect(await store().tokens.create(first)).toBe(true);
    const second = makeToken('ci');
    expect(await store().tokens.create(second)).toBe(false);
    await store().tokens.revoke('ci', NOW_MS);
    expect(await store().tokens.create(second)).toBe(false);
    expect(await store().tokens.find(second.hash)).toBeNull();
    expect(await store().tokens.list()).toMatchObject([{ name: 'ci', scopes: ['admin'] }]);
  });

  test('one of many creations of a name at once succeeds', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => store().tokens.create(makeToken('ci'))));
    expect(made.filter(Boolean)).toHaveLength(1);
    expect(await store().tokens.list()).toHaveLength(1);
  });

  test('the list can have only tokens with some names', async () => {
    const strange = 'a\0\uD800';
    for (const name of ['a', 'b', strange]) await store().tokens.create(makeToken(name));
    const list = async (names: readonly string[]) => (await store().tokens.list(names)).map(({ name }) => name);
    expect(await list(['b', 'none', strange])).toEqual([strange, 'b']);
    expect(await list([])).toEqual([]);
  });

  test('the list is in the order of the bytes of names, without hashes', async () => {
    const names = ['b', 'a', 'B', 'ä', '\u{10400}', '\uFF21', 'a-', 'a1'];
    for (const name of names) await store().tokens.create(makeToken(name));
    const list = await store().tokens.list();
    expect(list.map(({ name }) => name)).toEqual(['B', 'a', 'a-', 'a1', 'b', 'ä', '\uFF21', '\u{10400}']);
    expect(list.every((row) => !('hash' in row))).toBe(true);
  });

  test('pages of the list have each token once, also while tokens are made', async () => {
    const names = ['B', 'a', 'a-', 'a1', 'b', 'ä', '\u{10400}'];
    for (const name of names.toReversed()) await store().tokens.create(makeToken(name));
    for (const limit of [1, 2, 3, 7, 8]) {
      const seen: string[] = [];
      for (let page = await store().tokens.listPage(limit); page.length > 0;) {
        expect(page.length).toBeLessThanOrEqual(limit);
        seen.push(...page.map(({ name }) => name));
        page = await store().tokens.listPage(limit, seen.at(-1)!);
      }
      expect(seen).toEqual(names);
    }
    const [first] = await store().tokens.listPage(1);
    await store().tokens.create(makeToken('A'));
    const rest = await store().tokens.listPage(2, first!.name);
    expect(rest.map(({ name }) => name)).toEqual(['a', 'a-']);
    expect(rest.every((row) => !('hash' in row))).toBe(true);
  });

  test('the first revocation counts', async () => {
    const token = makeToken('ci');
    await store().tokens.create(token);
    expect(await store().tokens.revoke('ci', NOW_MS)).toMatchObject({ name: 'ci', revokedAtMs: NOW_MS });
    const again = await store().tokens.revoke('ci', NOW_MS + 5);
    expect(again).toMatchObject({ revokedAtMs: NOW_MS });
    expect(again).not.toHaveProperty('hash');
    expect(await store().tokens.find(token.hash)).toMatchObject({ revokedAtMs: NOW_MS });
    expect(await store().tokens.revoke('none', NOW_MS)).toBeNull();
  });

  test('the last use never moves back', async () => {
    const token = makeToken('ci');
    await store().tokens.create(token);
    await store().tokens.touch('ci', NOW_MS);
    await store().tokens.touch('ci', NOW_MS - 1);
    expect(await store().tokens.find(token.hash)).toMatchObject({ lastUsedAtMs: NOW_MS });
    await store().tokens.touch('ci', NOW_MS + 1);
    expect(await store().tokens.list()).toMatchObject([{ lastUsedAtMs: NOW_MS + 1 }]);
    await store().tokens.touch('none', NOW_MS);
    expect(await store().tokens.list()).toHaveLength(1);
  });

  test('unusual texts come back as they were', async () => {
    const names = UNUSUAL_TEXTS.filter((text) => text !== '');
    for (const name of names) {
      const token = makeToken(name, { runs: UNUSUAL_TEXTS, groups: [name], allowGit: UNUSUAL_TEXTS.toReversed() });
      expect(await store().tokens.create(token), JSON.stringify(name)).toBe(true);
      expect(await store().tokens.find(token.hash)).toMatchObject({ ...token });
      expect(await store().tokens.revoke(name, NOW_MS)).toMatchObject({ name, revokedAtMs: NOW_MS });
    }
    expect(await store().tokens.list()).toHaveLength(names.length);
  });
}

function testAudit(store: () => AccessStore): void {
  test('rows have rising ids, and the latest is first', async () => {
    const { audit } = store();
    for (const status of [200, 201, 202]) await audit.add(makeEntry({ status }));
    const rows = await audit.list({ limit: 10 });
    expect(rows.map(({ status }) => status)).toEqual([202, 201, 200]);
    expect(rows[0]!.id).toBeGreaterThan(rows[1]!.id);
    expect(rows[1]!.id).toBeGreaterThan(rows[2]!.id);
    expect(rows[0]).toEqual({ ...makeEntry({ status: 202 }), id: rows[0]!.id });
  });

  test('pages follow each other without a gap', async () => {
    const { audit } = store();
    for (let status = 200; status < 207; status += 1) await audit.add(makeEntry({ status }));
    const seen: number[] = [];
    let before: number | undefined;
    for (let page = 0; page < 4; page += 1) {
      const rows = await audit.list({ limit: 3, ...(before === undefined ? {} : { before }) });
      seen.push(...rows.map(({ status }) => status));
      before = rows.at(-1)?.id;
      if (before === undefined) break;
    }
    expect(seen).toEqual([206, 205, 204, 203, 202, 201, 200]);
  });

  test('rows are selected by token and by run', async () => {
    const { audit } = store();
    await audit.add(makeEntry({ token: 'a', runId: 'x' }));
    await audit.add(makeEntry({ token: 'b', runId: 'x' }));
    await audit.add(makeEntry({ token: null, address: null, runId: null, code: 'api/no-token', status: 401 }));
    expect(await audit.list({ limit: 9, token: 'a' })).toMatchObject([{ token: 'a', runId: 'x' }]);
    expect(await audit.list({ limit: 9, runId: 'x' })).toHaveLength(2);
    expect(await audit.list({ limit: 9, runId: 'x', token: 'b' })).toMatchObject([{ token: 'b' }]);
    expect(await audit.list({ limit: 9, token: 'none' })).toEqual([]);
    const [last] = await audit.list({ limit: 1 });
    expect(last).toMatchObject({ token: null, address: null, runId: null, code: 'api/no-token', status: 401 });
  });

  test('unusual texts come back as they were, and select their rows', async () => {
    const { audit } = store();
    for (const text of UNUSUAL_TEXTS) await audit.add(makeEntry({ token: text, runId: text, route: text, code: text }));
    for (const text of UNUSUAL_TEXTS) {
      expect(await audit.list({ limit: 9, runId: text })).toMatchObject([{ runId: text, route: text, code: text }]);
      expect(await audit.list({ limit: 9, token: text })).toMatchObject([{ token: text }]);
    }
  });

  test('the longest id of a run is kept', async () => {
    const { audit } = store();
    const runId = '\0'.repeat(1_000);
    await audit.add(makeEntry({ runId }));
    expect(await audit.list({ limit: 1, runId })).toMatchObject([{ runId }]);
  });

  test('rows that are added at once all stay', async () => {
    const { audit } = store();
    await Promise.all(Array.from({ length: 40 }, (_, index) => audit.add(makeEntry({ runId: `run-${index}` }))));
    const rows = await audit.list({ limit: 100 });
    expect(new Set(rows.map(({ runId }) => runId)).size).toBe(40);
  });
}
