/** Used links to questions in memory, for tests of what uses them. */
import type { ApprovalLinkStore } from '../../../store/triggers.ts';

interface Row {
  readonly expiresAtMs: number;
  /** Null: it is used. */
  readonly claim: { readonly token: string; readonly untilMs: number } | null;
}

export function createMemoryApprovalLinks(): ApprovalLinkStore {
  const rows = new Map<string, Row>();
  const keyOf = (hash: Uint8Array): string => Buffer.from(hash).toString('hex');
  return {
    claim({ hash, expiresAtMs }, { token, nowMs, leaseMs }) {
      const row = rows.get(keyOf(hash));
      const isFree = row === undefined || row.claim?.token === token || (row.claim?.untilMs ?? Infinity) <= nowMs;
      if (isFree) rows.set(keyOf(hash), { expiresAtMs, claim: { token, untilMs: nowMs + leaseMs } });
      return Promise.resolve(isFree);
    },
    use({ hash, expiresAtMs }) {
      rows.set(keyOf(hash), { expiresAtMs, claim: null });
      return Promise.resolve();
    },
    release(hash, token) {
      if (rows.get(keyOf(hash))?.claim?.token === token) rows.delete(keyOf(hash));
      return Promise.resolve();
    },
    isUsed: (hash) => Promise.resolve(rows.get(keyOf(hash))?.claim === null),
    sweep(nowMs) {
      for (const [key, { expiresAtMs }] of rows) if (expiresAtMs <= nowMs) rows.delete(key);
      return Promise.resolve();
    },
  };
}
