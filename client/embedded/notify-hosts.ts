/**
 * `notify.json`: hosts that notifications may reach although their addresses are closed. The services of the state folder
 * read it before each message.
 */
import { defineStoredList } from './stored-list.ts';

const HOSTS = defineStoredList({
  file: 'notify.json',
  key: 'hosts',
  what: 'the hosts that notifications may reach',
  items: 'hosts',
  isItem: (text) => text !== '',
  remedy: () => 'Write it again: `voidbox up --allow-notify HOST…`, or `voidbox up --no-allow-notify` to open none.',
});

/** @throws SetupError */
export const readNotifyHosts = HOSTS.read;
/** Replaces the earlier list. */
export const keepNotifyHosts = HOSTS.keep;
