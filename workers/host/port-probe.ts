import { connect } from 'node:net';
import { type IsPortClosed, PROBE_LIMIT_MS } from '../../activities/ports/model-servers.ts';

/** Opens a connection and closes it. */
export const isPortClosed: IsPortClosed = (port, signal) =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const end = (isClosed: boolean): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      socket.destroy();
      resolve(isClosed);
    };
    const giveUp = (): void => end(false);
    const timer = setTimeout(giveUp, PROBE_LIMIT_MS);
    signal.addEventListener('abort', giveUp, { once: true });
    socket.once('connect', giveUp);
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code === 'ECONNREFUSED'));
    if (signal.aborted) giveUp();
  });
