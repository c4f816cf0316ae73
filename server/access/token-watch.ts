/** Ends the connections of tokens that are revoked or expire while a request is open. */
import type { OpenAccess } from '../../app/access/access-opener.ts';
import { isValidNow } from '../../app/access/authenticate.ts';
import type { TokenRow } from '../../store/access.ts';
import type { Connection } from '../listener.ts';

/** Checks that may fail one after the other, because the database restarts. */
const MOST_FAILED_CHECKS = 2;

export interface TokenWatch {
  /** Watches the token until the request has ended. */
  hold(token: TokenRow, connection: Connection): { release(): void };
}

export interface TokenWatchOptions {
  readonly access: OpenAccess;
  readonly nowMs: () => number;
  readonly checkEveryMs: number;
  readonly log: (line: string) => void;
}

/** A revocation takes effect after two checks at the latest, and a database that does not answer after three. */
export function createTokenWatch(options: TokenWatchOptions): TokenWatch {
  const { checkEveryMs, log } = options;
  const held = new Map<object, { readonly name: string; readonly connection: Connection }>();
  let timer: NodeJS.Timeout | null = null;
  let failed = 0;
  let isChecking = false;
  const endAll = (isEnded: (name: string) => boolean): void => {
    for (const [key, { name, connection }] of held) {
      if (!isEnded(name)) continue;
      held.delete(key);
      connection.end();
    }
  };
  const fail = (why: string): void => {
    failed += 1;
    if (failed <= MOST_FAILED_CHECKS || held.size === 0) return;
    log(`the connections of tokens end, because their database does not answer: ${why}`);
    endAll(() => true);
  };
  const check = async (): Promise<void> => {
    isChecking = true;
    try {
      const valid = await listValidTokens([...new Set([...held.values()].map(({ name }) => name))], options);
      failed = 0;
      endAll((name) => !valid.has(name));
    } catch (error) {
      fail((error as Error).message);
    } finally {
      isChecking = false;
    }
  };
  const stop = (): void => {
    if (timer !== null) clearInterval(timer);
    timer = null;
  };
  const tick = (): void => {
    if (held.size === 0) return stop();
    if (isChecking) return fail('the last query has no answer yet');
    void check();
  };
  return {
    hold({ name }, connection) {
      const key = {};
      held.set(key, { name, connection });
      timer ??= setInterval(tick, checkEveryMs);
      return { release: () => void held.delete(key) };
    },
  };
}

async function listValidTokens(
  names: readonly string[],
  { access, nowMs }: TokenWatchOptions,
): Promise<ReadonlySet<string>> {
  const rows = await (await access('find')).tokens.list(names);
  return new Set(rows.filter((row) => isValidNow(row, nowMs())).map(({ name }) => name));
}
