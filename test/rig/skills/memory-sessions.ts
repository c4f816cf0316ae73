/** A second kind of store for sessions, in the memory of this process; see `test/rig/runs/memory-stores.ts`. */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Wanted } from '../../../activities/ports/session-stores.ts';
import type { OpenSession } from '../../../activities/ports/sessions.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { StepRecord } from '../../../domain/step-machine/records.ts';
import { isSessionId } from '../../../domain/step-machine/session-id.ts';
import { describeMissing, missingOf, valuesOf } from '../../../domain/step-machine/skill-variables.ts';
import { isSha256 } from '../../../domain/units/sha256.ts';
import type { OpenedSessions } from '../../conformance/store/sessions.ts';

const ANSWER_LIMIT_MS = 500;
const POLL_MS = 5;
const LEAST_AGE_MS = 60_000;

class MemorySession {
  readonly servers = new Set<string>();
  readonly records = new Map<string, { readonly previous: string | null; readonly records: readonly StepRecord[] }>();
  usedAtMs = Date.now();
  opened: OpenSession | null = null;
  observed = 0;
  wanted: Wanted | null = null;
  handedOver:
    | (Omit<Wanted, 'names' | 'opener'> & { readonly values: Record<string, string>; readonly atMs: number })
    | null = null;
}

/** The data of all stores that are opened on it. */
export type SessionsInMemory = Map<string, MemorySession>;

export function openMemorySessions(place: SessionsInMemory, serverId: string): OpenedSessions {
  const check = (session: string): string => {
    if (isSessionId(session)) return session;
    throw new CodedError('session/foreign', `${JSON.stringify(session)} is not the id of a session`);
  };
  const find = (session: string): MemorySession | undefined => place.get(check(session));
  const make = (session: string): MemorySession => {
    const made = find(session) ?? new MemorySession();
    place.set(session, made);
    made.usedAtMs = Date.now();
    return made;
  };
  const use = (session: string): MemorySession => {
    const made = make(session);
    made.servers.add(serverId);
    return made;
  };
  return {
    records: {
      async write({ session, previous, records }) {
        const ref = createHash('sha256').update(JSON.stringify({ previous, records })).digest('hex');
        use(session).records.set(ref, structuredClone({ previous, records }));
        return ref;
      },
      async read(session, ref) {
        const found = find(session);
        const all: (readonly StepRecord[])[] = [];
        for (let at: string | null = ref; at !== null;) {
          if (!isSha256(at)) throw new CodedError('session/foreign', `${at} names no records`);
          const piece: { readonly previous: string | null; readonly records: readonly StepRecord[] } | undefined =
            found?.records.get(at);
          if (piece === undefined) throw new CodedError('store/io', `records ${at} of ${session} are not here`);
          all.unshift(piece.records);
          at = piece.previous;
        }
        return all.flat();
      },
    },
    opened: {
      read: async (session) => find(session)?.opened ?? null,
      async write(record) {
        const session = use(record.session);
        // Observers of another workflow with the id have received no event.
        if (session.opened?.firstRun !== record.firstRun) session.observed = 0;
        session.opened = structuredClone(record);
      },
    },
    observed: {
      last: async (session) => find(session)?.observed ?? 0,
      async note(session, number) {
        make(session).observed = number;
      },
      async begin(session) {
        use(session);
      },
    },
    variables: {
      async handedOver({ session, firstRun }, skill) {
        const found = find(session)?.handedOver ?? null;
        if (found?.skill !== skill) return {};
        return firstRun === null || found.firstRun === firstRun ? found.values : {};
      },
      async waitFor(session, wanted, own) {
        const missing = (): readonly string[] => {
          const found = find(session)?.handedOver ?? null;
          const isIts = found?.skill === wanted.skill && found.firstRun === wanted.firstRun;
          return missingOf(wanted.names, { ...own, ...(isIts ? found.values : {}) });
        };
        if (missing().length === 0) return;
        if (wanted.opener === null)
          throw new CodedError('skill/variable-missing', describeMissing(wanted.skill, missing()));
        const made = make(session);
        made.wanted = wanted;
        const until = Date.now() + ANSWER_LIMIT_MS;
        while (Date.now() < until && made.handedOver?.firstRun !== wanted.firstRun) await sleep(POLL_MS);
        made.wanted = null;
        if (missing().length > 0)
          throw new CodedError('skill/variable-missing', describeMissing(wanted.skill, missing()));
      },
      async answer({ session, opener }, variables, opening, onHandOver) {
        while (!opening.aborted) {
          const found = find(session);
          const wanted = found?.wanted ?? null;
          if (found !== undefined && wanted?.opener === opener && found.handedOver?.firstRun !== wanted.firstRun) {
            const { skill, names, firstRun } = wanted;
            found.handedOver = { skill, firstRun, values: { ...valuesOf(names, variables) }, atMs: Date.now() };
            onHandOver(Object.keys(found.handedOver.values));
          }
          await sleep(POLL_MS);
        }
      },
      nameOpener: async (session) => `opener of ${session}`,
      async drop(session) {
        const found = find(session);
        if (found !== undefined) found.handedOver = null;
      },
      async holders(server, nowMs) {
        return [...place].flatMap(([session, { handedOver, servers }]) => {
          if (handedOver === null || nowMs - handedOver.atMs < LEAST_AGE_MS) return [];
          return servers.size === 0 || servers.has(server) ? [session] : [];
        });
      },
    },
    pruner: {
      hasAny: async () => place.size > 0,
      async prune(uses, { olderThanMs, dryRun, nowMs }) {
        const sessions = [...place].flatMap(([session, { servers, usedAtMs }]) => {
          const isOld = nowMs - usedAtMs > olderThanMs;
          const isOurs = servers.size === 1 && servers.has(uses.serverId);
          return isOld && isOurs && !uses.open.has(session) ? [session] : [];
        });
        if (!dryRun) for (const session of sessions) place.delete(session);
        return { sessions, skills: [] };
      },
    },
  };
}
