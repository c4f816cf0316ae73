/** Asks a keeper how its VM is, without a fence: nobody who drives the VM is cut off. */
import { readVmStatus, type VmStatus } from './api.ts';
import { connectKeeper, ControlConnection } from './connection.ts';

/** @throws ConnectionError when nobody answers, or the signal's reason */
export async function askVmStatus(dir: string, signal: AbortSignal): Promise<VmStatus> {
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    return readVmStatus(await connection.request('status', {}, signal));
  } finally {
    connection.close(new Error('the state is known'));
  }
}
