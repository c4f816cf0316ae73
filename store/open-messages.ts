/** Opens the messages of sessions of a state folder. No other file opens them. */
import { createFileMessages } from './file/session-messages.ts';
import type { SessionMessages } from './session-messages.ts';

/** One process opens them. */
export function openSessionMessages(place: { readonly stateDir: string }): SessionMessages {
  return createFileMessages(place);
}
