/** Renews a VM's lease from outside: without a fence, so that nobody who drives the VM is cut off. */
import { hasFeature, readCount, readVmStatus } from './api.ts';
import { connectKeeper, ControlConnection } from './connection.ts';

/**
 * Milliseconds that the lease has now; null for a keeper of an earlier build, which has no such request and is left alone.
 * @throws ConnectionError when nobody answers, or the signal's reason
 */
export async function keepVmAlive(dir: string, signal: AbortSignal): Promise<number | null> {
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    const { features } = readVmStatus(await connection.request('status', {}, signal));
    if (!hasFeature(features, 'keepalive')) return null;
    return readCount(await connection.request('keepalive', {}, signal), 'leaseLeftMs', 'keepalive');
  } finally {
    connection.close(new Error('the lease is renewed'));
  }
}
