/** The URL under which people open pages of the HTTP API. */
import { askStack } from './control-client.ts';
import type { ListenState } from './control.ts';

/** Nothing connects to these addresses: they mean all addresses of a machine. */
const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/**
 * Chooses the public URL, else that of the first listener with an address of its own.
 * @returns null if no such listener is open
 */
export function chooseClientUrl({ publicUrl, listeners }: Pick<ListenState, 'publicUrl' | 'listeners'>): string | null {
  const open = listeners.find(({ host, problem }) => problem === null && !ALL_ADDRESSES.has(host));
  return publicUrl ?? open?.url ?? null;
}

/** @returns null if the embedded stack does not listen, or does not answer */
export async function readStackUrl(stateDir: string): Promise<string | null> {
  const asked = await askStack(stateDir, 'status');
  return asked.kind === 'answer' && asked.answer.listen !== null ? chooseClientUrl(asked.answer.listen) : null;
}
