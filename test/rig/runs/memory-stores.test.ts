import { describeArtifactStore, describeEventLog } from '../../conformance/store.ts';
import { describeRunIndex } from '../../conformance/store/run-index.ts';
import { describeRunRecords } from '../../conformance/store/run-records.ts';
import { describeSessionStores } from '../../conformance/store/sessions.ts';
import type { StoresSubject } from '../../conformance/store/subject.ts';
import { describeRunInspector, describeRunPruner } from '../../conformance/store/upkeep.ts';
import { openMemorySessions, type SessionsInMemory } from '../skills/memory-sessions.ts';
import { MemoryPlace, openMemoryStores } from './memory-stores.ts';

const places = new Map<string, MemoryPlace>();

function placeAt(location: string): MemoryPlace {
  const found = places.get(location);
  if (found === undefined) throw new Error(`there is no place ${location}`);
  return found;
}

const subject: StoresSubject = {
  name: 'memory',
  async place() {
    const location = `place ${places.size}`;
    places.set(location, new MemoryPlace());
    return { location, dispose: async () => undefined };
  },
  open: async (location) => openMemoryStores(placeAt(location)),
  async damage(location, runId) {
    placeAt(location).make(runId).records.set('plan', '{');
  },
};

const runs = {
  ...subject,
  async open(location: string) {
    const { events, reader, index, close } = await subject.open(location);
    return { ...events, ...reader, index, close };
  },
};

describeEventLog({
  ...runs,
  roundTrips: () => [...places.values()].reduce((sum, { appends }) => sum + appends, 0),
  factoryModule: null,
});
describeRunIndex(runs);
describeArtifactStore({ ...subject, open: async (location) => (await subject.open(location)).artifacts });
describeRunRecords(subject);
describeRunPruner(subject);
describeRunInspector(subject);

const sessions = new Map<string, SessionsInMemory>();

describeSessionStores({
  name: 'memory',
  async place() {
    const location = `place ${sessions.size}`;
    sessions.set(location, new Map());
    return { location, dispose: async () => undefined };
  },
  open: async (location, serverId) => openMemorySessions(sessions.get(location)!, serverId),
});
