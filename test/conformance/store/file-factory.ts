/** The file store as the suite's own processes open it. */
import type { EventStore } from '../../../activities/ports/event-log.ts';
import { createFileEventStore } from '../../../store/file/event-store.ts';

export function openStore(location: string): EventStore {
  return createFileEventStore(location);
}
