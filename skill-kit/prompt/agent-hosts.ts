/** Which tools the known agent hosts have, and which of them does what a primitive asks. */
import type { Handshake } from '../../domain/step-machine/definition.ts';

const names = (list: string): readonly string[] => Object.freeze(list.trim().split(/\s+/));

/** Tools by host. A host that is not here, `generic` among them, has those that it reports. */
export const HOST_TOOLS: Readonly<Record<string, readonly string[]>> = Object.freeze({
  'claude-code':
    names(`AskUserQuestion EnterPlanMode ExitPlanMode TaskCreate TaskUpdate TaskList TaskGet Agent Skill Read Edit Write Bash Glob
    Grep WebFetch WebSearch TodoWrite SendMessage Monitor LSP NotebookEdit EnterWorktree ExitWorktree`),
  codex: names(
    'shell exec_command write_stdin apply_patch update_plan web_search view_image request_user_input spawn_agent send_input wait_agent close_agent',
  ),
  opencode: names(
    'bash read write edit apply_patch glob grep codesearch lsp webfetch websearch question todo task plan skill',
  ),
  'gemini-cli':
    names(`shell read-file read-many-files write-file edit glob grep ls web-search web-fetch ask-user enter-plan-mode exit-plan-mode
    write-todos agent tracker-create-task tracker-update-task tracker-list-tasks tracker-get-task memory activate-skill complete-task`),
  cline:
    names(`execute_command read_file write_to_file edit_file apply_diff apply_patch search_files list_files codebase_search browser_action
    ask_followup_question attempt_completion new_task switch_mode update_todo_list WEB_SEARCH WEB_FETCH PLAN_MODE ACT_MODE USE_SUBAGENTS`),
  'roo-code':
    names(`execute_command read_file write_to_file edit_file apply_diff apply_patch search_replace search_files list_files
    codebase_search ask_followup_question attempt_completion new_task switch_mode update_todo_list access_mcp_resource skill`),
  'kilo-code':
    names(`execute_command read_file write_to_file edit_file fast_edit_file apply_diff apply_patch delete_file search_and_replace
    search_files list_files codebase_search browser_action ask_followup_question attempt_completion new_task switch_mode update_todo_list
    access_mcp_resource`),
  cursor: names('codebase_search read_file edit_file run_terminal_command file_search grep_search list_dir'),
  amp: names('shell read write edit'),
});

/**
 * The tools to count on. An agent at the top often reports fewer than it has, so its host's are added; a sub-agent was given
 * a selection, and what it reports is all.
 */
export function toolsOf({ host, toolsAvailable, isSubagent }: Handshake): ReadonlySet<string> {
  const known = Object.hasOwn(HOST_TOOLS, host) ? (HOST_TOOLS[host] ?? []) : [];
  if (toolsAvailable.length === 0) return new Set(known);
  return new Set(isSubagent ? toolsAvailable : [...toolsAvailable, ...known]);
}

/** Parses the value of `--tools`: names separated by commas, and perhaps blanks. */
export function toolNames(list: string): string[] {
  return list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}
