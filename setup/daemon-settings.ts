/** Where clients of Void-Box look for a daemon, and the variables that name its token. */
import { join, resolve } from 'node:path';

export interface DaemonSettings {
  /** The socket that a client without an address connects to. */
  readonly socket: string;
  /** `VOIDBOX_DAEMON_TOKEN_FILE`, else `VOIDBOX_DAEMON_TOKEN`; null: neither is set. The file is not read yet. */
  readonly token: DaemonTokenPlace | null;
}

export type DaemonTokenPlace =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'text'; readonly text: string };

/** The variable whose value is a secret. */
export const DAEMON_TOKEN_VARIABLE = 'VOIDBOX_DAEMON_TOKEN';

/** @param read  returns the value of a variable; null if it is unset */
export function readDaemonSettings(
  read: (name: string) => string | null,
  uid: number = process.getuid?.() ?? 0,
): DaemonSettings {
  const runtime = read('XDG_RUNTIME_DIR');
  const socket =
    runtime === null ? join(read('TMPDIR') ?? '/tmp', `voidbox-${uid}.sock`) : join(runtime, 'voidbox.sock');
  return { socket: resolve(socket), token: readPlace(read('VOIDBOX_DAEMON_TOKEN_FILE'), read(DAEMON_TOKEN_VARIABLE)) };
}

function readPlace(file: string | null, text: string | null): DaemonTokenPlace | null {
  if (file !== null) return { kind: 'file', path: resolve(file) };
  return text === null ? null : { kind: 'text', text };
}
