import type { LinkOptions, ServerLink } from '../client/temporal/server-link.ts';
import type { Machine } from './machine.ts';

/**
 * Returns the connection to the Temporal server of the runs. A process of the stack uses its own connection, because it
 * must not restart the stack that it belongs to.
 * @returns null when the embedded stack is not running, and may not be started; null if the runs are on another machine
 */
export async function openRunsLink(context: Machine, options: LinkOptions): Promise<ServerLink | null> {
  if (context.stackLink !== undefined) return await context.stackLink();
  // A service on another machine asks its own server.
  if (context.env.service !== null) return null;
  // Loaded here, so that commands show ended runs without the Temporal SDK.
  const { openServerLink } = await import('../client/temporal/server-link.ts');
  return await openServerLink(context, options);
}
