type ReadText = (path: string) => string;
export interface HostMemory {
  readonly totalMib: number;
  readonly availableMib: number;
}
/** With what it comes from. */
export interface HostMemoryReport extends HostMemory {
  /** Folder of the cgroup whose limit `totalMib` is; null when it is the machine's memory. */
  readonly limitedBy: string | null;
}
/** VMs are in the cgroup of the worker that asked for them: keepers are its children. */
export declare function readHostMemory(read?: ReadText): HostMemory;
/** As the process `pid` is limited. */
export declare function inspectHostMemory(pid: number | 'self', read?: ReadText): HostMemoryReport;
/** What all VMs together may take, their overhead included. */
export declare function vmBudgetMib(totalMib: number): number;
export {};
