/** Renews a VM's lease from outside. It uses no fence, so the client that drives the VM keeps its fence. */
import { readCount } from './api.ts';
import { connectKeeper, ControlConnection } from './connection.ts';

/**
 * Renews the lease, and returns its remaining milliseconds.
 * @throws ConnectionError if no keeper answers, or the signal's reason
 */
export async function keepVmAlive(dir: string, signal: AbortSignal): Promise<number> {
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    return readCount(await connection.request('keepalive', {}, signal), 'leaseLeftMs', 'keepalive');
  } finally {
    connection.close(new Error('the lease is renewed'));
  }
}
