"""Metrics that public dashboards of Grafana ask for, and the labels by which they select them.

Labels that a scrape adds (job, instance, pod, namespace, ...) are left out.  The last two files
come with one set of rules for Prometheus's JMX exporter, the first with the other.
"""

from __future__ import annotations

from typing import Final

DASHBOARDS: Final = {
    "Strimzi Kafka": """
        container_cpu_usage_seconds_total
        container_memory_usage_bytes
        jvm_gc_collection_seconds_count
        jvm_gc_collection_seconds_sum
        jvm_memory_used_bytes
        jvm_threads_current
        kafka_cluster_partition_atminisr
        kafka_cluster_partition_replicascount
        kafka_cluster_partition_underminisr
        kafka_controller_controllerstats_uncleanleaderelections_total
        kafka_controller_kafkacontroller_activecontrollercount
        kafka_controller_kafkacontroller_offlinepartitionscount
        kafka_log_log_size partition topic
        kafka_network_socketserver_networkprocessoravgidle_percent
        kafka_server_brokertopicmetrics_bytesin_total topic
        kafka_server_brokertopicmetrics_bytesout_total topic
        kafka_server_brokertopicmetrics_failedfetchrequests_total topic
        kafka_server_brokertopicmetrics_failedproducerequests_total topic
        kafka_server_brokertopicmetrics_messagesin_total topic
        kafka_server_brokertopicmetrics_totalfetchrequests_total topic
        kafka_server_brokertopicmetrics_totalproducerequests_total topic
        kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
        kafka_server_kafkaserver_linux_disk_read_bytes
        kafka_server_kafkaserver_linux_disk_write_bytes
        kafka_server_replicamanager_leadercount
        kafka_server_replicamanager_partitioncount
        kafka_server_replicamanager_underreplicatedpartitions
        kafka_server_socket_server_metrics_connection_count
        kubelet_volume_stats_available_bytes
        process_open_fds
    """,
    "Strimzi Kafka Exporter": """
        kafka_broker_info
        kafka_cluster_partition_atminisr topic
        kafka_cluster_partition_underminisr topic
        kafka_consumergroup_current_offset consumergroup topic
        kafka_consumergroup_lag consumergroup topic
        kafka_topic_partition_current_offset topic
        kafka_topic_partition_in_sync_replica topic
        kafka_topic_partition_leader_is_preferred topic
        kafka_topic_partition_oldest_offset topic
        kafka_topic_partition_replicas topic
        kafka_topic_partition_under_replicated_partition topic
        kafka_topic_partitions topic
    """,
    "Kafka Exporter Overview": """
        kafka_consumergroup_current_offset topic
        kafka_consumergroup_lag topic
        kafka_topic_partition_current_offset topic
        kafka_topic_partitions topic
    """,
    "Kafka cluster": """
        jvm_gc_collection_seconds_sum
        jvm_memory_bytes_max area
        jvm_memory_used_bytes
        kafka_cluster_partition_underminisr
        kafka_controller_controllerstats_uncleanleaderelectionspersec
        kafka_controller_kafkacontroller_activecontrollercount
        kafka_controller_kafkacontroller_offlinepartitionscount
        kafka_controller_kafkacontroller_preferredreplicaimbalancecount
        kafka_coordinator_group_groupmetadatamanager_numgroups
        kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance
        kafka_coordinator_group_groupmetadatamanager_numgroupsdead
        kafka_coordinator_group_groupmetadatamanager_numgroupsempty
        kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance
        kafka_coordinator_group_groupmetadatamanager_numgroupsstable
        kafka_log_log_size
        kafka_log_log_tiersize
        kafka_network_acceptor_acceptorblockedpercent
        kafka_network_requestchannel_requestqueuesize
        kafka_network_requestchannel_responsequeuesize
        kafka_network_requestmetrics_deprecatedrequestspersec_fiveminuterate
        kafka_network_requestmetrics_errorspersec error
        kafka_network_requestmetrics_localtimems quantile request
        kafka_network_requestmetrics_remotetimems quantile request
        kafka_network_requestmetrics_requestqueuetimems quantile request
        kafka_network_requestmetrics_requestspersec request
        kafka_network_requestmetrics_responsequeuetimems quantile request
        kafka_network_requestmetrics_responsesendtimems quantile request
        kafka_network_requestmetrics_totaltimems quantile request
        kafka_network_socketserver_networkprocessoravgidlepercent
        kafka_server_brokertopicmetrics_bytesinpersec topic
        kafka_server_brokertopicmetrics_bytesoutpersec topic
        kafka_server_brokertopicmetrics_fetchmessageconversionspersec
        kafka_server_brokertopicmetrics_messagesinpersec topic
        kafka_server_brokertopicmetrics_producemessageconversionspersec
        kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec
        kafka_server_fetchsessioncache_numincrementalfetchsessions
        kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
        kafka_server_kafkaserver_brokerstate
        kafka_server_kafkaserver_linux_disk_read_bytes
        kafka_server_kafkaserver_linux_disk_write_bytes
        kafka_server_replicafetchermanager_maxlag clientid
        kafka_server_replicafetchermanager_minfetchrate clientid
        kafka_server_replicamanager_isrexpandspersec
        kafka_server_replicamanager_isrshrinkspersec
        kafka_server_replicamanager_leadercount
        kafka_server_replicamanager_partitioncount
        kafka_server_replicamanager_straypartitionscount
        kafka_server_replicamanager_straypartitionsmisclassifiedcount
        kafka_server_replicamanager_straypartitionstotalsize
        kafka_server_replicamanager_underreplicatedpartitions
        kafka_server_sessionexpirelistener_zookeeperauthfailurespersec
        kafka_server_sessionexpirelistener_zookeeperdisconnectspersec
        kafka_server_sessionexpirelistener_zookeeperexpirespersec
        kafka_server_sessionexpirelistener_zookeepersyncconnectspersec
        kafka_server_socketservermetrics_connection_close_rate
        kafka_server_socketservermetrics_connection_count
        kafka_server_socketservermetrics_connection_creation_rate
        kafka_server_socketservermetrics_connections
        kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms quantile
        kafka_tier_tasks_archive_tierarchiver_bytespersec
        kafka_tier_tasks_archive_tierarchiver_retriespersec
        kafka_tier_tasks_archive_tierarchiver_totallag
        kafka_tier_tasks_tiertasks_numpartitionsinerror
        process_cpu_seconds_total
    """,
    "Kafka topics": """
        kafka_controller_kafkacontroller_globalpartitioncount
        kafka_controller_kafkacontroller_globaltopiccount
        kafka_log_log_logendoffset topic
        kafka_log_log_logstartoffset topic
        kafka_log_log_size topic
        kafka_log_log_tiersize topic
        kafka_server_brokertopicmetrics_bytesinpersec topic
        kafka_server_brokertopicmetrics_bytesoutpersec topic
        kafka_server_brokertopicmetrics_messagesinpersec topic
        kafka_server_brokertopicmetrics_totalfetchrequestspersec topic
        kafka_server_brokertopicmetrics_totalproducerequestspersec topic
        kafka_server_kafkaserver_brokerstate
    """,
}
"""strimzi/strimzi-kafka-operator 8541da1 (two), danielqsj/kafka_exporter 953e2f1 (Grafana's 7589),
confluentinc/jmx-monitoring-stacks 9707c1a (two): a line for each metric, and its labels."""

ABSENT: Final = frozenset(
    [
        "container_cpu_usage_seconds_total",
        "container_memory_usage_bytes",
        "kubelet_volume_stats_available_bytes",
        "jvm_gc_collection_seconds_sum",
        "jvm_memory_bytes_max",
        "jvm_memory_used_bytes",
        "kafka_log_log_tiersize",
        "kafka_tier_tasks_archive_tierarchiver_bytespersec",
        "kafka_tier_tasks_archive_tierarchiver_retriespersec",
        "kafka_tier_tasks_archive_tierarchiver_totallag",
        "kafka_tier_tasks_tiertasks_numpartitionsinerror",
        "kafka_network_acceptor_acceptorblockedpercent",
        "kafka_network_requestmetrics_deprecatedrequestspersec_fiveminuterate",
        "kafka_server_replicafetchermanager_minfetchrate",
        "kafka_server_replicamanager_straypartitionscount",
        "kafka_server_replicamanager_straypartitionsmisclassifiedcount",
        "kafka_server_replicamanager_straypartitionstotalsize",
        "kafka_server_sessionexpirelistener_zookeeperauthfailurespersec",
        "kafka_server_socketservermetrics_connections",
        "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
    ]
)
"""Metrics that a broker does not have; docs/monitoring.md says why."""
