/** Renews a VM's lease from outside: without a fence, so that nobody who drives the VM is cut off. */
import { readCount } from './api.ts';
import { connectKeeper, ControlConnection } from './connection.ts';

/**
 * Milliseconds that the lease has now.
 * @throws ConnectionError when nobody answers, or the signal's reason
 */
export async function keepVmAlive(dir: string, signal: AbortSignal): Promise<number> {
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    return readCount(await connection.request('keepalive', {}, signal), 'leaseLeftMs', 'keepalive');
  } finally {
    connection.close(new Error('the lease is renewed'));
  }
}
