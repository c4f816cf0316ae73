/** Opens the file store in the processes of the suite. */
import { openStores } from '../../../store/open-stores.ts';
import type { OpenedRuns } from './opened-runs.ts';

export async function open(location: string): Promise<OpenedRuns> {
  const { events, reader, index, close } = await openStores({ stateDir: location });
  return { ...events, ...reader, index, close };
}
