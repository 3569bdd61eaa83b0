// The views, in the order of the navigation.
import { clusterView } from "../cluster/view.js";
import { allocationsView } from "./allocations.js";
import { attentionView } from "./attention.js";
import { decisionsView } from "./decisions.js";
import { groupsView } from "./groups.js";
import { pendingView } from "./pending.js";
import { workloadsView } from "./workloads.js";

/**
 * @typedef {import("../snapshot.js").Snapshot} Snapshot
 * @typedef {import("../snapshot.js").Changes} Changes
 * @typedef {{
 *   update(changes: Changes): void,
 *   filter(text: string): void,
 *   repaint?(): void,
 *   leave(): void,
 * }} View what is on the page; `repaint` when the theme has changed
 * @typedef {{
 *   name: string, title: string, key: string,
 *   enter(host: HTMLElement, snapshot: Snapshot): View,
 *   badge?(snapshot: Snapshot): number,
 * }} ViewEntry
 */

/** @type {ViewEntry[]} */
export const VIEWS = [attentionView, clusterView, workloadsView, groupsView, pendingView, allocationsView, decisionsView];
