/**
 * Facts that only this host knows about a run, such as the prepared parts of its VMs and the folder of its spec. They
 * live as long as the run's records, and never reach another host.
 */

export interface HostMarks {
  put(runId: string, name: string, value: unknown): Promise<void>;
  /** Returns null for a mark that does not exist. */
  get(runId: string, name: string): Promise<unknown>;
  /** Removes a mark, if it exists. */
  drop(runId: string, name: string): Promise<void>;
  /**
   * Writes a mark of a running VM. The mark survives the death of any process. It need not survive a power cut, which
   * ends the VM too.
   */
  putOfVm(runId: string, name: string, value: unknown): Promise<void>;
  /** Returns null for a mark that does not exist, and for a mark that a power cut damaged. */
  getOfVm(runId: string, name: string): Promise<unknown>;
}
