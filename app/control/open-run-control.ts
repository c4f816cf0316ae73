import type { Machine } from '../machine.ts';
import type { RunControl } from './run-control.ts';

/** Chooses the machine of the runs, as `store/open-stores.ts` does for readers. It loads the implementation when it is used. */
export async function openRunControl(context: Machine): Promise<RunControl> {
  const { service } = context.env;
  if (service === null) return (await import('./local-control.ts')).createLocalControl(context);
  return (await import('./remote-control.ts')).createRemoteControl(service, context);
}
