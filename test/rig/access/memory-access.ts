/** Tokens, an audit log and triggers in memory, for tests of what uses them. */
import type { AccessStore, AuditRow, FoundToken, TokenRow } from '../../../store/access.ts';
import { createMemoryTriggers } from './memory-triggers.ts';

export function createMemoryAccess(): AccessStore {
  const tokens = new Map<string, FoundToken>();
  const rows: AuditRow[] = [];
  return {
    tokens: {
      create(token) {
        if (tokens.has(token.name)) return Promise.resolve(false);
        tokens.set(token.name, { ...token, lastUsedAtMs: null, revokedAtMs: null });
        return Promise.resolve(true);
      },
      list(names) {
        const listed = [...tokens.values()].filter(({ name }) => names === undefined || names.includes(name));
        return Promise.resolve(listed.map(hideHash).toSorted(compareNames));
      },
      listPage(limit, after) {
        const sorted = [...tokens.values()].map(hideHash).toSorted(compareNames);
        const behind = sorted.filter((row) => after === undefined || compareTexts(row.name, after) > 0);
        return Promise.resolve(behind.slice(0, limit));
      },
      find: (hash) =>
        Promise.resolve([...tokens.values()].find((token) => Buffer.compare(token.hash, hash) === 0) ?? null),
      revoke(name, nowMs) {
        const token = tokens.get(name);
        if (token === undefined) return Promise.resolve(null);
        const revoked = { ...token, revokedAtMs: token.revokedAtMs ?? nowMs };
        tokens.set(name, revoked);
        return Promise.resolve(hideHash(revoked));
      },
      touch(name, nowMs) {
        const token = tokens.get(name);
        if (token !== undefined)
          tokens.set(name, { ...token, lastUsedAtMs: Math.max(token.lastUsedAtMs ?? nowMs, nowMs) });
        return Promise.resolve();
      },
    },
    audit: {
      add(entry) {
        rows.push({ ...entry, id: rows.length + 1 });
        return Promise.resolve();
      },
      list: ({ limit, before = Number.POSITIVE_INFINITY, token, runId }) =>
        Promise.resolve(
          rows
            .filter((row) => row.id < before)
            .filter((row) => token === undefined || row.token === token)
            .filter((row) => runId === undefined || row.runId === runId)
            .toReversed()
            .slice(0, limit),
        ),
    },
    triggers: createMemoryTriggers(),
    close: () => Promise.resolve(),
  };
}

function hideHash({ hash: _hash, ...row }: FoundToken): TokenRow {
  return row;
}

function compareNames(one: TokenRow, other: TokenRow): number {
  return compareTexts(one.name, other.name);
}

function compareTexts(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
