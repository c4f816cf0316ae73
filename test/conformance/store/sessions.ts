/** The promises of every store of sessions, whatever its backend. */
import { afterEach, describe, expect, test } from 'vitest';
import type { ObservedEvents, SessionPruner, SessionVariables } from '../../../activities/ports/session-stores.ts';
import type { OpenSession, OpenSessionStore, SessionRecordStore } from '../../../activities/ports/sessions.ts';
import type { StepRecord } from '../../../domain/step-machine/records.ts';

export interface OpenedSessions {
  readonly records: SessionRecordStore;
  readonly opened: OpenSessionStore;
  readonly observed: ObservedEvents;
  readonly variables: SessionVariables;
  readonly pruner: SessionPruner;
}

export interface SessionStoresSubject {
  readonly name: string;
  /** Makes a new, empty place for stores; its end removes all of it. */
  place(): Promise<{ readonly location: string; dispose(): Promise<void> }>;
  /** Opens stores of a place, like another process. */
  open(location: string, serverId: string): Promise<OpenedSessions>;
}

const DAY_MS = 86_400_000;
/** A client's start of a session. */
const START = { session: 's', opener: 'me' };

function recordsOf(...turns: readonly number[]): readonly StepRecord[] {
  return turns.map((turn) => ({ step: `step ${turn}`, turn, frame: 0, input: {}, output: { turn } }) as never);
}

function openedSession(session: string, firstRun: string): OpenSession {
  const code = { skill: 'skill', version: '1.0.0', codeHash: 'ab'.repeat(32) };
  return { session, firstRun, runs: [firstRun], codes: [code], path: [], handshake: {}, root: session };
}

export function describeSessionStores(subject: SessionStoresSubject): void {
  describe(`${subject.name}: stores of sessions`, () => {
    let dispose: () => Promise<void>;
    let location: string;
    async function fresh(): Promise<OpenedSessions> {
      ({ location, dispose } = await subject.place());
      return another();
    }
    function another(serverId = 'server'): Promise<OpenedSessions> {
      return subject.open(location, serverId);
    }
    afterEach(() => dispose());

    test('records are read to the name that a write has returned, oldest first', async () => {
      const { records } = await fresh();
      const first = await records.write({ session: 's', previous: null, records: recordsOf(1, 2) });
      const second = await records.write({ session: 's', previous: first, records: recordsOf(3) });
      expect(await records.read('s', first)).toEqual(recordsOf(1, 2));
      expect(await (await another()).records.read('s', second)).toEqual(recordsOf(1, 2, 3));
    });

    test('the same records have the same name, others another one', async () => {
      const { records } = await fresh();
      const write = (previous: string | null, turn: number): Promise<string> =>
        records.write({ session: 's', previous, records: recordsOf(turn) });
      const first = await write(null, 1);
      expect(await write(null, 1)).toBe(first);
      expect(new Set([first, await write(null, 2), await write(first, 1)]).size).toBe(3);
    });

    test('records that are not there, or of another session, cannot be read', async () => {
      const { records } = await fresh();
      const ref = await records.write({ session: 's', previous: null, records: recordsOf(1) });
      await expect(records.read('s', 'ab'.repeat(32))).rejects.toMatchObject({ code: 'store/io' });
      await expect(records.read('other', ref)).rejects.toMatchObject({ code: 'store/io' });
      await expect(records.read('s', '../x')).rejects.toMatchObject({ code: 'session/foreign' });
      await expect(records.read('../s', ref)).rejects.toMatchObject({ code: 'session/foreign' });
      await expect(records.write({ session: '../s', previous: null, records: [] })).rejects.toMatchObject({
        code: 'session/foreign',
      });
    });

    test('what is remembered of an opened session is replaced as a whole', async () => {
      const { opened } = await fresh();
      expect(await opened.read('s')).toBeNull();
      await opened.write(openedSession('s', 'run-1'));
      await opened.write({ ...openedSession('s', 'run-1'), runs: ['run-1', 'run-2'] });
      expect(await (await another()).opened.read('s')).toEqual({
        ...openedSession('s', 'run-1'),
        runs: ['run-1', 'run-2'],
      });
      expect(await opened.read('other')).toBeNull();
    });

    test('the last event that observers were told is noted, until another workflow has the id', async () => {
      const { observed, opened } = await fresh();
      expect(await observed.last('s')).toBe(0);
      await opened.write(openedSession('s', 'run-1'));
      await observed.begin('s');
      await observed.note('s', 3);
      await observed.note('s', 4);
      await opened.write({ ...openedSession('s', 'run-1'), runs: ['run-1', 'run-2'] });
      expect(await (await another()).observed.last('s')).toBe(4);
      expect(await observed.last('other')).toBe(0);
      await opened.write(openedSession('s', 'run-9'));
      expect(await observed.last('s')).toBe(0);
    });

    test('variables are handed over to the skill and the workflow that want them, and to no others', async () => {
      const { variables } = await fresh();
      const opening = new AbortController();
      const told: (readonly string[])[] = [];
      const client = await another();
      const answering = client.variables.answer(START, { TOKEN: 'x', OTHER: 'y' }, opening.signal, (names) =>
        told.push(names),
      );
      await variables.waitFor('s', { skill: 'skill', names: ['TOKEN'], firstRun: 'run-1', opener: 'me' }, {});
      opening.abort();
      await answering;
      expect(told).toEqual([['TOKEN']]);
      const handedOver = (session: string, firstRun: string | null, skill: string): Promise<unknown> =>
        variables.handedOver({ session, firstRun }, skill);
      expect(await handedOver('s', 'run-1', 'skill')).toEqual({ TOKEN: 'x' });
      expect(await handedOver('s', null, 'skill')).toEqual({ TOKEN: 'x' });
      expect(await handedOver('s', 'run-2', 'skill')).toEqual({});
      expect(await handedOver('s', 'run-1', 'other')).toEqual({});
      expect(await handedOver('other', 'run-1', 'skill')).toEqual({});
      // New values may belong to a session that does not exist yet.
      expect(await variables.holders('server', Date.now())).toEqual([]);
      expect(await variables.holders('server', Date.now() + DAY_MS)).toEqual(['s']);
      await variables.drop('s');
      await variables.drop('s');
      expect(await handedOver('s', 'run-1', 'skill')).toEqual({});
      expect(await variables.holders('server', Date.now() + DAY_MS)).toEqual([]);
    });

    test('variables of the worker need no client, and a client without the value gets an error', async () => {
      const { variables } = await fresh();
      const wanted = { skill: 'skill', names: ['TOKEN'], firstRun: 'run-1', opener: 'me' };
      await variables.waitFor('s', wanted, { TOKEN: 'own' });
      const opening = new AbortController();
      const answering = variables.answer(START, {}, opening.signal, () => undefined);
      await expect(variables.waitFor('s', wanted, {})).rejects.toMatchObject({ code: 'skill/variable-missing' });
      opening.abort();
      await answering;
    });

    test('a prune removes what ended sessions of the server left, and leaves all others', async () => {
      const stores = await fresh();
      expect(await stores.pruner.hasAny()).toBe(false);
      for (const session of ['open', 'over']) {
        await stores.opened.write(openedSession(session, 'run-1'));
        await stores.records.write({ session, previous: null, records: recordsOf(1) });
      }
      await (await another('other server')).opened.write(openedSession('foreign', 'run-1'));
      expect(await stores.pruner.hasAny()).toBe(true);
      const uses = { serverId: 'server', open: new Set(['open']), codeHashes: null };
      const prune = (dryRun: boolean, afterMs: number): Promise<unknown> =>
        stores.pruner.prune(uses, { olderThanMs: DAY_MS, dryRun, nowMs: Date.now() + afterMs });
      expect(await prune(false, 0)).toEqual({ sessions: [], skills: [] });
      expect(await prune(true, 2 * DAY_MS)).toEqual({ sessions: ['over'], skills: [] });
      expect(await stores.opened.read('over')).not.toBeNull();
      expect(await prune(false, 2 * DAY_MS)).toEqual({ sessions: ['over'], skills: [] });
      expect(await stores.opened.read('over')).toBeNull();
      expect(await stores.opened.read('open')).not.toBeNull();
      expect(await stores.opened.read('foreign')).not.toBeNull();
    });
  });
}
