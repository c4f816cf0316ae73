/** Sources in memory, for tests of what uses them. */
import {
  SOURCE_KEPT_MS,
  type SourceEvent,
  type SourceId,
  type SourceProblem,
  type SourceStore,
} from '../../../store/ports/sources.ts';
import type { DeliveryStore } from '../../../store/triggers.ts';

interface Kept {
  event: SourceEvent;
  readonly delivery: string | null;
  seenAtMs: number;
}

interface Source {
  readonly id: SourceId;
  place: string | null;
  sinceMs: number;
  problem: SourceProblem | null;
}

export function createMemorySources(deliveries: Pick<DeliveryStore, 'accept'>): SourceStore {
  let sources: Source[] = [];
  let events: Kept[] = [];
  const find = (id: SourceId): Source | undefined => sources.find((source) => isOf(source.id, id));
  const findOrAdd = (id: SourceId): Source => {
    const found = find(id) ?? { id, place: null, sinceMs: 0, problem: null };
    if (!sources.includes(found)) sources.push(found);
    return found;
  };
  const findEvent = (event: Pick<SourceEvent, 'place' | 'content'> & SourceId): Kept | undefined =>
    events.find(
      ({ event: known }) => isOf(known, event) && known.place === event.place && known.content === event.content,
    );
  return {
    begin(id, place, sinceMs) {
      const source = findOrAdd(id);
      if (source.place !== place) Object.assign(source, { place, sinceMs });
      return Promise.resolve(source.sinceMs);
    },
    keepOnly(ids) {
      sources = sources.filter(({ id }) => ids.some((kept) => isOf(kept, id)));
      return Promise.resolve();
    },
    async acceptOnce(event, delivery) {
      const known = findEvent(event);
      if (known !== undefined) return { isNew: known.delivery === delivery.id, delivery: known.delivery };
      events.push({ event, delivery: delivery.id, seenAtMs: delivery.acceptedAtMs });
      await deliveries.accept(delivery);
      return { isNew: true, delivery: delivery.id };
    },
    skip(skipped, nowMs) {
      for (const event of skipped)
        if (findEvent(event) === undefined) events.push({ event, delivery: null, seenAtMs: nowMs });
      return Promise.resolve();
    },
    findSeen: (id, places) =>
      Promise.resolve(
        events.flatMap(({ event }) => {
          const { place, content, state } = event;
          return isOf(event, id) && places.includes(place) ? [{ place, content, state }] : [];
        }),
      ),
    renew(id, renewed, nowMs) {
      for (const { place, content, state } of renewed) {
        const known = findEvent({ ...id, place, content });
        if (known !== undefined) Object.assign(known, { event: { ...known.event, state }, seenAtMs: nowMs });
      }
      return Promise.resolve();
    },
    report(id, problem, nowMs) {
      const source = problem === null ? find(id) : findOrAdd(id);
      const before = source?.problem ?? null;
      if (source !== undefined)
        source.problem =
          problem === null
            ? null
            : { ...id, ...problem, sinceMs: before?.code === problem.code ? before.sinceMs : nowMs };
      return Promise.resolve();
    },
    listProblems: (deployment) =>
      Promise.resolve(
        sources
          .flatMap(({ id, problem }) => (id.deployment === deployment && problem !== null ? [problem] : []))
          .toSorted((one, other) => (one.trigger < other.trigger ? -1 : 1)),
      ),
    sweep(nowMs) {
      events = events.filter(({ seenAtMs }) => seenAtMs > nowMs - SOURCE_KEPT_MS);
      return Promise.resolve();
    },
  };
}

function isOf(one: SourceId, other: SourceId): boolean {
  return one.deployment === other.deployment && one.trigger === other.trigger;
}
