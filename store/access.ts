/** The ports of tokens and of the audit log. One store has both, and triggers; no worker and no workflow uses it. */
import type { Scope } from '../domain/access/scopes.ts';
import type { TriggerStore } from './triggers.ts';

export interface TokenRow {
  /** Unique among all tokens, also revoked ones, because the audit log names tokens. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Patterns of the ids of runs that it may see; empty: every run. */
  readonly runs: readonly string[];
  readonly groups: readonly string[];
  /** Repositories that its runs may fetch, as HOST/PATH. */
  readonly allowGit: readonly string[];
  readonly createdAtMs: number;
  /** Null: it does not expire. */
  readonly expiresAtMs: number | null;
  /** Null: it was never used. */
  readonly lastUsedAtMs: number | null;
  /** Null: it is not revoked. */
  readonly revokedAtMs: number | null;
}

export interface NewToken extends Omit<TokenRow, 'lastUsedAtMs' | 'revokedAtMs'> {
  /** SHA-256 of the token's text: 32 bytes. */
  readonly hash: Uint8Array;
}

export interface FoundToken extends TokenRow {
  readonly hash: Uint8Array;
}

export interface TokenStore {
  /** @returns false if another token has the name; then nothing has changed */
  create(token: NewToken): Promise<boolean>;
  /**
   * Returns tokens, also expired and revoked ones, by name.
   * @param names  only these; absent: all
   */
  list(names?: readonly string[]): Promise<readonly TokenRow[]>;
  /**
   * Returns a page of tokens, also expired and revoked ones, by name.
   * @param limit  at least 1
   * @param after  only tokens whose names follow this name; absent: all
   */
  listPage(limit: number, after?: string): Promise<readonly TokenRow[]>;
  /** Returns the token whether or not it is valid now; null: no token has this hash. */
  find(hash: Uint8Array): Promise<FoundToken | null>;
  /** Does not change the time of an earlier revocation. @returns null if no token has the name */
  revoke(name: string, nowMs: number): Promise<TokenRow | null>;
  /** Records the last use, which never moves back. A token that does not exist changes nothing. */
  touch(name: string, nowMs: number): Promise<void>;
}

export interface AuditEntry {
  readonly atMs: number;
  /** The name of the token; null: the owner of the state folder, or a request without a valid token. */
  readonly token: string | null;
  /** The address of the client, such as `192.0.2.7`; null: the Unix socket. */
  readonly address: string | null;
  readonly method: string;
  /** The pattern of the route, such as `/api/v1/runs/:runId/cancel`. */
  readonly route: string;
  /** Null: the request names no run. */
  readonly runId: string | null;
  /** The HTTP status of the answer. */
  readonly status: number;
  /** The code of the problem; null: the request succeeded. */
  readonly code: string | null;
}

export interface AuditRow extends AuditEntry {
  /** Rises with each row. */
  readonly id: number;
}

export interface AuditQuery {
  /** At least 1. */
  readonly limit: number;
  /** Only rows with a lower id. */
  readonly before?: number;
  readonly token?: string;
  readonly runId?: string;
}

/** The latest rows that an audit log keeps at least. Each of `AUDIT_STEP` rows deletes those before them. */
export const AUDIT_ROWS = 1_000_000;
export const AUDIT_STEP = 1_000;

export interface AuditLog {
  add(entry: AuditEntry): Promise<void>;
  /** Returns the latest rows first. */
  list(query: AuditQuery): Promise<readonly AuditRow[]>;
}

/** All methods throw CodedError `api/access-unavailable`, or `host/disk-full`, if the database cannot answer. */
export interface AccessStore {
  readonly tokens: TokenStore;
  readonly audit: AuditLog;
  readonly triggers: TriggerStore;
  close(): Promise<void>;
}
